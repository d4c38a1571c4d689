// Walking and rewriting, driven by the nodes' field lists: the code here is per field type, not per node
// kind.
#include "nestor/walk.h"

#include "nestor/error.h"

namespace nestor {

namespace {

// Declared ahead, since the vector case calls them at instantiation.
template <class F>
void visit_field(const IterVar& i, F&& f);
template <class F>
bool map_field(IterVar& i, F&& f);
template <class F>
void visit_field(const int64_t&, F&&) {}
template <class F>
bool map_field(int64_t&, F&&) {
  return false;
}

// Calls f on every Expr and Stmt directly inside a field.
template <class F>
void visit_field(const Expr& e, F&& f) {
  if (e) f(e);
}
template <class F>
void visit_field(const Stmt& s, F&& f) {
  if (s) f(s);
}
template <class T, class F>
void visit_field(const std::vector<T>& items, F&& f) {
  for (const T& item : items) visit_field(item, f);
}
template <class F>
void visit_field(const IterVar& i, F&& f) {
  visit_field(i.extent, f);
  visit_field(i.binding, f);
}
template <class F>
void visit_field(const BufferDecl& d, F&& f) {
  visit_field(d.shape, f);  // a layout's expressions are over its own variables
}
template <class T, class F>
void visit_field(const T&, F&&) {}

template <class Node, class F>
void visit_children(const Node& node, F&& f) {
  std::visit(
      [&](const auto& n) {
        using N = std::decay_t<decltype(n)>;
        std::apply([&](auto... field) { (visit_field(n.*field, f), ...); }, N::fields());
      },
      node.v);
}

// Replaces the children inside a field; true where one changed.
template <class F>
bool map_field(Expr& e, F&& f) {
  if (!e) return false;
  Expr changed = f(e);
  const bool different = !changed.same_as(e);
  e = std::move(changed);
  return different;
}
template <class F>
bool map_field(Stmt& s, F&& f) {
  if (!s) return false;
  Stmt changed = f(s);
  const bool different = !changed.same_as(s);
  s = std::move(changed);
  return different;
}
template <class T, class F>
bool map_field(std::vector<T>& items, F&& f) {
  bool changed = false;
  for (T& item : items) changed |= map_field(item, f);
  return changed;
}
template <class F>
bool map_field(IterVar& i, F&& f) {
  const bool a = map_field(i.extent, f);
  return map_field(i.binding, f) || a;
}
template <class F>
bool map_field(BufferDecl& d, F&& f) {
  return map_field(d.shape, f);
}
template <class T, class F>
bool map_field(T&, F&&) {
  return false;
}

template <class N, class F>
bool map_fields(N& n, F&& f) {
  return std::apply([&](auto... field) { return (static_cast<int>(map_field(n.*field, f)) | ... | 0) != 0; },
                    N::fields());
}

struct AllWalker : Walker {
  const std::function<void(const Expr&)>* on_expr = nullptr;
  const std::function<void(const Stmt&)>* on_stmt = nullptr;
  void expr(const Expr& e) override {
    if (on_expr) (*on_expr)(e);
    if (on_expr) children(e);
  }
  void stmt(const Stmt& s) override {
    if (on_stmt) (*on_stmt)(s);
    if (on_expr) return children(s);
    visit_children(*s, Overloaded{[](const Expr&) {}, [this](const Stmt& child) { stmt(child); }});
  }
};

}  // namespace

uint64_t Inside::bit_of(const Buffer& b) {
  return uint64_t{1} << (reinterpret_cast<uintptr_t>(b.get()) * 0x9e3779b97f4a7c15u >> 58);
}
uint64_t Inside::bit_of(std::string_view block) {
  return uint64_t{1} << (std::hash<std::string_view>()(block) % 64);
}

ExprNode::ExprNode(Type t, Kind kind) : type(t), v(std::move(kind)) {
  visit_children(*this, [this](const Expr& child) { buffers |= child->buffers; });
  if (const auto* l = std::get_if<Load>(&v)) buffers |= Inside::bit_of(l->buffer);
}

StmtNode::StmtNode(Kind kind) : v(std::move(kind)) {
  visit_children(*this, Overloaded{[this](const Expr& child) { inside.buffers |= child->buffers; },
                                   [this](const Stmt& child) {
                                     inside.blocks |= child->inside.blocks;
                                     inside.buffers |= child->inside.buffers;
                                   }});
  if (const auto* b = std::get_if<Block>(&v)) inside.blocks |= Inside::bit_of(b->id->name);
  if (const auto* s = std::get_if<Store>(&v)) inside.buffers |= Inside::bit_of(s->buffer);
  if (const auto* u = std::get_if<Update>(&v)) inside.buffers |= Inside::bit_of(u->buffer);
}

void Walker::children(const Expr& e) {
  visit_children(*e, [this](const Expr& child) { expr(child); });
}

void Walker::children(const Stmt& s) {
  visit_children(
      *s, Overloaded{[this](const Expr& child) { expr(child); }, [this](const Stmt& child) { stmt(child); }});
}

Expr Rewriter::children(const Expr& e) {
  return std::visit(
      [&](const auto& n) -> Expr {
        auto copy = n;
        if (!map_fields(copy, [this](const Expr& child) { return expr(child); })) return e;
        return Expr(std::make_shared<const ExprNode>(e->type, std::move(copy)));
      },
      e->v);
}

Stmt Rewriter::children(const Stmt& s) {
  return std::visit(
      [&](const auto& n) -> Stmt {
        using N = std::decay_t<decltype(n)>;
        auto copy = n;
        const auto f = Overloaded{[this](const Expr& child) { return expr(child); },
                                  [this](const Stmt& child) { return stmt(child); }};
        if (!map_fields(copy, f)) return s;
        if constexpr (std::is_same_v<N, Seq>) {
          Stmt joined = make::seq(std::move(copy.stmts));
          const auto* as_seq = joined.as<Seq>();
          return as_seq && as_seq->stmts.empty() ? Stmt() : joined;
        }
        if constexpr (std::is_same_v<N, If>) {
          if (!copy.then_case && !copy.else_case) return {};
          if (!copy.then_case) return make::if_then(logical_not(copy.cond), copy.else_case);
        }
        if constexpr (requires { copy.body; } && !std::is_same_v<N, If>)
          if (!copy.body) return {};
        return Stmt(std::make_shared<const StmtNode>(std::move(copy)));
      },
      s->v);
}

void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& f) {
  AllWalker w;
  w.on_expr = &f;
  w.stmt(s);
}
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& f) {
  AllWalker w;
  w.on_expr = &f;
  w.expr(e);
}
void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& f) {
  AllWalker w;
  w.on_stmt = &f;
  w.stmt(s);
}

namespace {

// Stops at the first use.
struct VarFinder : Walker {
  explicit VarFinder(const Var& v) : var(v) {}
  void expr(const Expr& e) override {
    if (found) return;
    const auto* r = e.as<VarRef>();
    if (r)
      found = r->var == var;
    else
      children(e);
  }
  void stmt(const Stmt& s) override {
    if (!found) children(s);
  }
  const Var& var;
  bool found = false;
};

struct BufferFinder : Walker {
  explicit BufferFinder(const Buffer& b) : buffer(b), bit(Inside::bit_of(b)) {}
  void expr(const Expr& e) override {
    if (found || !(e->buffers & bit)) return;
    const auto* l = e.as<Load>();
    found = l && l->buffer == buffer;
    if (!found) children(e);
  }
  void stmt(const Stmt& s) override {
    if (found || !(s->inside.buffers & bit)) return;
    const auto* st = s.as<Store>();
    const auto* u = s.as<Update>();
    found = (st && st->buffer == buffer) || (u && u->buffer == buffer);
    if (!found) children(s);
  }
  const Buffer& buffer;
  const uint64_t bit;
  bool found = false;
};

}  // namespace

bool uses_var(const Expr& e, const Var& v) {
  VarFinder f(v);
  if (e) f.expr(e);
  return f.found;
}
bool uses_var(const Stmt& s, const Var& v) {
  VarFinder f(v);
  if (s) f.stmt(s);
  return f.found;
}
bool uses_buffer(const Expr& e, const Buffer& b) {
  BufferFinder f(b);
  if (e) f.expr(e);
  return f.found;
}
bool uses_buffer(const Stmt& s, const Buffer& b) {
  BufferFinder f(b);
  if (s) f.stmt(s);
  return f.found;
}

bool has_load(const Expr& e) {
  return e->buffers != 0;  // each load sets a bit
}

namespace {

// As lowering leaves it: X[i] = X[i] op v, perhaps under a condition.
bool reduces_lanes_lowered(const For& loop) {
  Stmt body = loop.body;
  if (const auto* branch = body.as<If>(); branch && !branch->else_case) body = branch->then_case;
  const auto* st = body.as<Store>();
  const auto* b = st ? st->value.as<Binary>() : nullptr;
  const auto* old = b ? b->a.as<Load>() : nullptr;
  if (!old || old->buffer != st->buffer || st->mask || uses_buffer(b->b, st->buffer)) return false;
  const auto* branch = loop.body.as<If>();
  if (branch && uses_buffer(branch->cond, st->buffer)) return false;
  for (size_t d = 0; d < st->indices.size(); ++d)
    if (uses_var(st->indices[d], loop.var) || !same_expr(old->indices[d], st->indices[d])) return false;
  return b->op == BinaryOp::add || b->op == BinaryOp::mul || b->op == BinaryOp::max || b->op == BinaryOp::min;
}

}  // namespace

bool reduces_lanes(const For& loop) {
  if (reduces_lanes_lowered(loop)) return true;
  const auto* block = loop.body.as<Block>();
  const auto* update = block && !block->init ? block->body.as<Update>() : nullptr;
  if (!update || uses_buffer(update->value, update->buffer)) return false;
  for (const IterVar& i : block->iters) {
    if (!uses_var(i.binding, loop.var)) continue;
    if (i.kind != IterKind::reduce) return false;
    for (const Expr& index : update->indices)
      if (uses_var(index, i.var)) return false;
  }
  return true;
}

std::unordered_map<Buffer, BufferDecl> declarations(const PrimFunc& f) {
  std::unordered_map<Buffer, BufferDecl> out;
  for (const Param& p : f.params) out.emplace(p.decl.buffer, p.decl);
  for (const BufferDecl& d : f.allocs) out.emplace(d.buffer, d);
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>()) out.emplace(a->decl.buffer, a->decl);
  });
  return out;
}

const Param* find_param(const PrimFunc& f, const Buffer& b) {
  for (const Param& p : f.params)
    if (p.decl.buffer == b) return &p;
  return nullptr;
}

}  // namespace nestor
