// One walk that keeps track of scopes. The first broken rule throws at once, with the faulty nodes underlined
// in the printed function, because it nearly always causes the others.
#include "nestor/check.h"

#include <map>
#include <set>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/ir/check.h"

namespace nestor {

namespace {

std::string quoted(const std::string& name) {
  return "`" + name + "`";
}

class Checker {
 public:
  explicit Checker(const PrimFunc& f) : func_(f) {}

  void run() {
    if (!func_.body) fail("the function has no body", {});
    for (const Var& d : func_.dims) bind(d, Kind::dimension, nullptr);
    for (const Param& p : func_.params) {
      declare(p.decl, nullptr, p.role == Role::out);
      if (p.decl.buffer->type.is_vector())
        fail("parameter " + quoted(p.decl.buffer->name) + " holds vectors; only registers may", {});
      if (!p.decl.align.empty()) fail("parameter " + quoted(p.decl.buffer->name) + " has an alignment", {});
    }
    for (const BufferDecl& d : func_.allocs) declare(d, nullptr, true);
    stmt(func_.body);
  }

 private:
  enum class Kind { dimension, loop, spatial, reduce, let, layout };
  struct Bound {
    Kind kind;
    int depth;  // the number of blocks around its binder
  };
  struct Declared {
    size_t rank;
    bool writable, visible;
  };

  [[noreturn]] void fail(const std::string& message, const std::vector<const void*>& at,
                         std::string hint = "") const {
    throw UserError(Diagnostic{
        func_.name + ": " + message, {}, {"in this function:\n" + print_marked(func_, at)}, std::move(hint)});
  }

  // ---- Scopes

  void bind(const Var& v, Kind kind, const void* at) {
    if (!v) fail("a variable is missing", {at});
    if (!ever_bound_.insert(v.get()).second)
      fail("variable " + quoted(v->name) + " is bound twice", {at}, "a copied statement needs fresh_copy");
    scope_[v.get()] = {kind, depth_};
  }
  void unbind(const Var& v) { scope_.erase(v.get()); }

  void declare(const BufferDecl& d, const void* at, bool writable) {
    if (!d.buffer) fail("a buffer is missing", {at});
    const std::string name = quoted(d.buffer->name);
    if (buffers_.contains(d.buffer.get())) fail("buffer " + name + " is declared twice", {at});
    for (const Expr& e : d.shape) {
      shape_expr(e, "the shape of " + name, at);
      if (const auto extent = as_int(e); extent && *extent < 0)
        fail("a dimension of " + name + " is negative", {at});
    }
    if (d.layout) layout(d, at);
    const int64_t physical = static_cast<int64_t>(d.layout ? d.layout->exprs.size() : d.shape.size());
    for (const StrideAlign& a : d.align)
      if (a.dim < 0 || a.dim >= physical || a.factor < 1 || a.offset < 0 || a.offset >= a.factor)
        fail("the alignment of " + name + " is of no dimension, or no remainder of its factor", {at});
    buffers_[d.buffer.get()] = {d.shape.size(), writable, true};
  }

  void layout(const BufferDecl& d, const void* at) {
    const std::string name = quoted(d.buffer->name);
    if (d.layout->vars.size() != d.shape.size())
      fail("the layout of " + name + " has " + std::to_string(d.layout->vars.size()) +
               " indices, its shape " + std::to_string(d.shape.size()),
           {at});
    auto outer = scope_;
    std::erase_if(scope_, [](const auto& entry) { return entry.second.kind != Kind::dimension; });
    // Two buffers may share a map, so its variables may be bound again elsewhere.
    for (const Var& v : d.layout->vars) scope_[v.get()] = {Kind::layout, depth_};
    for (const Expr& e : d.layout->exprs) shape_expr(e, "the layout of " + name, at);
    scope_ = std::move(outer);
  }

  void shape_expr(const Expr& e, const std::string& what, const void* at) {
    if (!e || !(e.type() == Type{})) fail(what + " is not i64", {at});
    expr(e, at);
    for_each_expr(e, [&](const Expr& inner) {
      if (inner.as<Load>()) fail(what + " reads a buffer", {at, inner.get()});
    });
  }

  // ---- Expressions

  void expr(const Expr& e, const void* at) {
    if (!e) fail("an expression is missing", {at});
    if (const auto* v = e.as<VarRef>()) use(v->var, e);
    if (const auto* l = e.as<Load>()) {
      access(l->buffer, l->indices, e.get(), false);
      for (const Expr& i : l->indices) expr(i, e.get());
      if (l->mask) expr(l->mask, e.get());
    } else if (const auto* let = e.as<Let>()) {
      expr(let->value, e.get());
      // An expression may stand in several places, and its lets with it; but not inside themselves.
      if (scope_.contains(let->var.get()))
        fail("variable " + quoted(let->var->name) + " is bound inside its own scope", {e.get()});
      scope_[let->var.get()] = {Kind::let, depth_};
      expr(let->body, e.get());
      unbind(let->var);
    } else {
      std::visit(
          [&](const auto& n) {
            using N = std::decay_t<decltype(n)>;
            std::apply([&](auto... field) { (child(n.*field, e.get()), ...); }, N::fields());
          },
          e->v);
    }
    if (const std::string problem = type_problem(e); !problem.empty()) fail(problem, {e.get()});
  }

  void child(const Expr& e, const void* parent) { expr(e, parent); }
  void child(const std::vector<Expr>& items, const void* parent) {
    for (const Expr& e : items) expr(e, parent);
  }
  template <class T>
  void child(const T&, const void*) {}

  void use(const Var& v, const Expr& e) {
    const auto it = scope_.find(v.get());
    if (it == scope_.end()) fail("variable " + quoted(v->name) + " is used outside its scope", {e.get()});
    const Bound& bound = it->second;
    if (bound.kind == Kind::loop && bound.depth < depth_)
      fail("block " + quoted(block_->id->name) + " uses loop variable " + quoted(v->name) + " directly",
           {e.get()}, "bind it to an iterator of the block, and use the iterator");
    if (in_init_ && bound.kind == Kind::reduce && bound.depth == depth_)
      fail("`init` uses the reduction iterator " + quoted(v->name), {e.get()});
  }

  void access(const Buffer& b, const std::vector<Expr>& indices, const void* at, bool writes) {
    if (!b) fail("a buffer is missing", {at});
    const auto it = buffers_.find(b.get());
    if (it == buffers_.end()) fail("buffer " + quoted(b->name) + " is not declared", {at});
    if (!it->second.visible) fail("buffer " + quoted(b->name) + " is used outside its alloc", {at});
    if (it->second.rank != indices.size())
      fail("buffer " + quoted(b->name) + " has " + std::to_string(it->second.rank) +
               " dimensions and is given " + std::to_string(indices.size()) +
               (indices.size() == 1 ? " index" : " indices"),
           {at});
    if (writes && !it->second.writable)
      fail("parameter " + quoted(b->name) + " is written, but is not `out`", {at});
  }

  // ---- Statements

  void stmt(const Stmt& s) {
    if (!s) fail("a statement is missing", {});
    const void* at = s.get();
    match(
        s,
        [&](const Seq& seq) {
          for (const Stmt& inner : seq.stmts) stmt(inner);
        },
        [&](const For& f) { loop(f, s); }, [&](const Block& b) { block(b, s); },
        [&](const Store& st) {
          access(st.buffer, st.indices, at, true);
          for (const Expr& i : st.indices) expr(i, at);
          if (st.mask) expr(st.mask, at);
          expr(st.value, at);
        },
        [&](const Update& u) {
          access(u.buffer, u.indices, at, true);
          for (const Expr& i : u.indices) expr(i, at);
          expr(u.value, at);
        },
        [&](const If& i) {
          expr(i.cond, at);
          stmt(i.then_case);
          if (i.else_case) stmt(i.else_case);
        },
        [&](const Alloc& a) {
          declare(a.decl, at, true);
          stmt(a.body);
          buffers_.at(a.decl.buffer.get()).visible = false;
        },
        [&](const LetStmt& l) {
          expr(l.value, at);
          bind(l.var, Kind::let, at);
          stmt(l.body);
          unbind(l.var);
        },
        [&](const Evaluate& e) {
          if (const auto* call = e.call.as<Call>())
            for (const Expr& a : call->args) expr(a, at);
        });
    if (const std::string problem = type_problem(s); !problem.empty()) fail(problem, {at});
  }

  void loop(const For& f, const Stmt& s) {
    expr(f.extent, s.get());
    for (const Stmt& outer : path_)
      if (const Var& v = outer.as<For>()->var; v->name == f.var->name && v != f.var)
        fail("loop name " + quoted(f.var->name) + " repeats on its path", {outer.get(), s.get()});
    bind(f.var, Kind::loop, s.get());
    path_.push_back(s);
    stmt(f.body);
    path_.pop_back();
    unbind(f.var);
  }

  void block(const Block& b, const Stmt& s) {
    if (!b.id) fail("a block without an id", {s.get()});
    if (const auto [it, fresh] = blocks_.try_emplace(b.id->name, s.get()); !fresh)
      fail("block name " + quoted(b.id->name) + " occurs twice", {it->second, s.get()});
    for (const IterVar& i : b.iters) {
      expr(i.extent, s.get());
      expr(i.binding, s.get());
      binding(i, s);
      if (const auto extent = as_int(i.extent); extent && *extent < 0)
        fail("iterator " + quoted(i.var->name) + " has a negative extent", {s.get()});
    }
    const Block* outer = block_;
    const bool outer_init = in_init_;
    block_ = &b;
    in_init_ = false;
    ++depth_;
    for (const IterVar& i : b.iters)
      bind(i.var, i.kind == IterKind::spatial ? Kind::spatial : Kind::reduce, s.get());
    if (b.where) expr(b.where, s.get());
    in_init_ = true;
    if (b.init) stmt(b.init);
    in_init_ = false;
    stmt(b.body);
    for (const IterVar& i : b.iters) unbind(i.var);
    --depth_;
    in_init_ = outer_init;
    block_ = outer;
  }

  // Loop variables, dimensions and the iterators of enclosing blocks, combined by integer arithmetic.
  void binding(const IterVar& i, const Stmt& s) {
    for_each_expr(i.binding, [&](const Expr& e) {
      const auto* v = e.as<VarRef>();
      const bool let = v && scope_.at(v->var.get()).kind == Kind::let;
      if (e.as<Load>() || e.as<Let>() || let)
        fail("iterator " + quoted(i.var->name) + " is bound to something other than loop variables",
             {e.get(), s.get()});
    });
  }

  const PrimFunc& func_;
  std::map<const VarNode*, Bound> scope_;  // only looked up, never listed
  std::set<const VarNode*> ever_bound_;
  std::map<const BufferNode*, Declared> buffers_;
  std::map<std::string, const void*> blocks_;
  std::vector<Stmt> path_;
  const Block* block_ = nullptr;
  int depth_ = 0;  // of blocks
  bool in_init_ = false;
};

}  // namespace

void check_well_formed(const PrimFunc& f) {
  Checker(f).run();
}

}  // namespace nestor
