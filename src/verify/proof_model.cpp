#include "src/verify/proof_model.h"

#include <algorithm>

#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor::verify {

size_t Statement::loops_before(size_t depth) const {
  size_t n = 0;
  for (size_t i = 0; i < depth; ++i) n += path[i].loop != nullptr;
  return n;
}

std::vector<V> Statement::loop_vars(size_t count) const {
  std::vector<V> out;
  for (size_t i = 0; i < count; ++i) out.push_back(loops[i]->var);
  return out;
}

// Walks a function and leaves its statements in the model.
class ModelBuilder {
 public:
  explicit ModelBuilder(Model& m) : m_(m), env_(m.dims_env_) {}

  void run() {
    path_.push_back({nullptr, 0, nullptr, false});  // before what follows the whole function
    stmt(m_.func_.body);
  }

 private:
  // What a scope adds to path, loops, constraints, sets and variables is taken away at its end.
  template <class F>
  void scope(F&& f) {
    const size_t path = path_.size(), loops = loops_.size(), bounds = bounds_.size(), zero = zero_.size(),
                 sets = sets_.size(), vars = vars_.size();
    const std::vector<V> inner = inner_;
    const Env env = env_;
    const Block* block = block_;
    f();
    path_.resize(path);
    loops_.resize(loops);
    bounds_.resize(bounds);
    zero_.resize(zero);
    sets_.erase(sets_.begin() + static_cast<long>(sets), sets_.end());
    vars_.resize(vars);
    inner_ = inner;
    env_ = env;
    block_ = block;
  }

  std::string here() const { return block_ ? "block " + block_->id->name : "the function's body"; }
  [[noreturn]] void give_up(const Expr& e, const std::string& what) const {
    throw Unmodelled{here() + ": " + what + " " + print(e) + " isn't linear in loops and iterators"};
  }
  Lin linear(const Expr& e, const std::string& what) const {
    const auto l = m_.lower(e, env_);
    if (!l) give_up(e, what);
    return *l;
  }
  void require(const Expr& cond, bool holds, const std::string& what) {
    const auto s = m_.condition(cond, env_, holds);
    if (!s) give_up(cond, what);
    sets_.push_back(*s);
  }

  void stmt(const Stmt& s) {
    match(
        s, [&](const Seq& q) { positions(s, q); }, [&](const For& l) { loop(l); },
        [&](const Block& b) { block(s, b); },
        [&](const Store& st) { leaf(s, st.buffer, st.indices, st.value, {}); },
        [&](const Update& u) { leaf(s, u.buffer, u.indices, u.value, u.op); },
        [&](const If& i) { branches(s, i); },
        [&](const Alloc& a) {
          m_.alloc_depth_[a.decl.buffer] = path_.size();
          stmt(a.body);
        },
        [&](const LetStmt& l) { let(l); }, [&](const Evaluate&) {});
  }

  void positions(const Stmt& s, const Seq& q) {
    for (size_t i = 0; i < q.stmts.size(); ++i) at(s, static_cast<int>(i), [&] { stmt(q.stmts[i]); });
  }
  template <class F>
  void at(const Stmt& s, int index, F&& f) {
    scope([&] {
      path_.push_back({s.get(), index, nullptr, s.as<If>() != nullptr});
      f();
    });
  }

  void loop(const For& l) {
    scope([&] {
      const Lin extent = linear(l.extent, "the extent");
      const bool sequential = l.kind == ForKind::serial || l.kind == ForKind::unrolled;
      const bool single = extent.is_constant() && extent.constant <= 1;
      m_.loops_.push_back({&l, m_.home_.make(l.var->name), sequential, single});
      const Loop* made = &m_.loops_.back();
      path_.push_back({&l, 0, made, false});
      loops_.push_back(made);
      inner_.push_back(made->var);
      const Lin v = Lin::of(made->var);
      bounds_.push_back(v);
      bounds_.push_back(extent - v - 1);
      env_[l.var] = v;
      stmt(l.body);
    });
  }

  void block(const Stmt& s, const Block& b) {
    scope([&] {
      block_ = &b;
      std::vector<V> reduce;
      Env inside = env_;
      for (const IterVar& i : b.iters) {
        const V v = m_.home_.make(i.var->name);
        const Lin at = Lin::of(v);
        zero_.push_back(at - linear(i.binding, "the binding of " + i.var->name));
        bounds_.push_back(at);
        bounds_.push_back(linear(i.extent, "the extent of " + i.var->name) - at - 1);
        inside[i.var] = at;
        vars_.push_back(v);
        if (i.kind == IterKind::reduce) reduce.push_back(v);
      }
      env_ = std::move(inside);
      inner_.clear();  // loops around a block are seen through its iterators
      if (b.where) require(b.where, true, "the condition");
      if (b.init)
        at(s, 0, [&] {
          for (const V v : reduce) zero_.push_back(Lin::of(v));
          stmt(b.init);
        });
      at(s, 1, [&] { stmt(b.body); });
    });
  }

  void branches(const Stmt& s, const If& i) {
    at(s, 0, [&] {
      require(i.cond, true, "the condition");
      stmt(i.then_case);
    });
    if (!i.else_case) return;
    at(s, 1, [&] {
      require(i.cond, false, "the condition");
      stmt(i.else_case);
    });
  }

  void let(const LetStmt& l) {
    const auto value = m_.lower(l.value, env_);
    if (!value) give_up(l.value, "the value of " + l.var->name);
    scope([&] {
      env_[l.var] = *value;
      stmt(l.body);
    });
  }

  void leaf(const Stmt& stmt, const Buffer& buffer, const std::vector<Expr>& indices, const Expr& value,
            std::optional<ReduceOp> op) {
    std::vector<Expr> exprs = indices;
    exprs.push_back(value);
    scope([&] {
      bind_loops(exprs);
      path_.push_back({stmt.get(), 0, nullptr, false});
      Statement s;
      s.number = static_cast<int>(m_.statements_.size());
      s.node = stmt.get();
      s.model = &m_;
      s.block = block_;
      s.name = block_ ? block_->id->name : buffer->name;
      s.buffer = buffer;
      s.value = value;
      s.op = op;
      s.path = path_;
      s.loops = loops_;
      s.vars = vars_;
      s.env = env_;
      for (const Expr& e : indices) s.element.push_back(linear(e, "an index of " + buffer->name));
      reads_ = &s.reads;
      for (const Expr& e : exprs) read(e, Set::all(m_.home_), true);
      Set domain = Set::where(m_.home_, zero_, bounds_) & m_.dims_domain_;
      for (const Set& set : sets_) domain = domain & set;
      s.domain = with_indices(s, std::move(domain));
      m_.statements_.push_back(std::move(s));
    });
  }

  // Loops that a statement may speak of without an iterator get one for it alone: those inside of its block,
  // and others that its expressions name. Two instances share loops around both, but never an iterator.
  void bind_loops(const std::vector<Expr>& exprs) {
    std::vector<V> open = inner_;
    for (const Expr& e : exprs)
      for_each_expr(e, [&](const Expr& inner) {
        const auto* r = inner.as<VarRef>();
        const auto it = r ? env_.find(r->var) : env_.end();
        if (it == env_.end()) return;
        for (const auto& [v, c] : it->second.terms) {
          const bool loop =
              std::any_of(loops_.begin(), loops_.end(), [&, v = v](const Loop* l) { return l->var == v; });
          if (loop && std::find(open.begin(), open.end(), v) == open.end()) open.push_back(v);
        }
      });
    Renaming names;
    for (const V l : open) {
      const V v = names[l] = m_.home_.make(m_.home_.name(l));
      vars_.push_back(v);
      zero_.push_back(Lin::of(v) - Lin::of(l));
    }
    for (auto& [var, value] : env_) value = renamed(value, names);
  }

  // The domain with the quotients that the statement's indices speak of.
  Set with_indices(const Statement& s, Set domain) const {
    std::vector<Lin> mentioned = s.element;
    for (const Read& r : s.reads)
      for (const auto& i : r.indices)
        if (i) mentioned.push_back(*i);
    for (const Lin& l : mentioned)
      for (const auto& [v, c] : l.terms)
        if (const auto it = m_.definitions_.find(v); it != m_.definitions_.end())
          domain = domain & it->second;
    return m_.define(std::move(domain));
  }

  // An element of an input may be any number; of what is computed, or of two of them at once, who knows.
  void index(Read& r, const Expr& e) {
    r.indices.push_back(m_.lower(e, env_));
    if (r.indices.back()) {
      r.points.push_back(*r.indices.back());
      return;
    }
    const V v = m_.home_.make("d");
    r.points.push_back(Lin::of(v));
    r.free.push_back(v);
    const auto* load = e.as<Load>();
    if (r.free.size() > 1 || !load || !m_.is_input(load->buffer)) r.exact = false;
  }

  // Where the indices that depend on data lie in the buffer.
  Set inside(const Read& r) const {
    std::vector<Lin> bounds;
    for (size_t d = 0; d < r.points.size(); ++d) {
      if (r.indices[d]) continue;
      bounds.push_back(r.points[d]);
      bounds.push_back(m_.shape(r.buffer, d) - r.points[d] - 1);
    }
    return m_.define(Set::where(m_.home_, {}, bounds));
  }

  // The loads in e; those of loads' indices first.
  void read(const Expr& e, const Set& guard, bool exact) {
    const auto under = [&](const Expr& inner, const Expr& cond, bool holds) {
      const auto c = m_.condition(cond, env_, holds);
      read(inner, c ? guard & *c : guard, exact && c.has_value());
    };
    if (const auto* s = e.as<Select>()) {
      read(s->cond, guard, exact);
      under(s->a, s->cond, true);
      under(s->b, s->cond, false);
      return;
    }
    if (const auto* b = e.as<Binary>();
        b && (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or)) {
      read(b->a, guard, exact);
      under(b->b, b->a, b->op == BinaryOp::logical_and);
      return;
    }
    if (const auto* l = e.as<Load>()) {
      for (const Expr& i : l->indices) read(i, guard, exact);
      for (Read& other : *reads_) {
        if (other.expr != e.get()) continue;  // one node that stands in two places
        other.guard = other.guard | (m_.define(guard) & inside(other));
        other.exact = other.exact && exact;
        return;
      }
      Read r{e.get(), l->buffer, {}, {}, {}, m_.define(guard), exact};
      for (const Expr& i : l->indices) index(r, i);
      r.guard = r.guard & inside(r);
      reads_->push_back(std::move(r));
      return;
    }
    if (const auto* b = e.as<Binary>()) return read(b->a, guard, exact), read(b->b, guard, exact);
    if (const auto* u = e.as<Unary>()) return read(u->a, guard, exact);
    if (const auto* c = e.as<Cast>()) return read(c->a, guard, exact);
    if (const auto* c = e.as<Call>()) {
      for (const Expr& a : c->args) read(a, guard, exact);
      return;
    }
    if (e.as<Let>() || e.as<Ramp>() || e.as<Broadcast>() || e.as<VectorReduce>() || e.as<Shuffle>())
      throw Unmodelled{here() + ": " + print(e) + " is of a kind that the proof doesn't know"};
  }

  Model& m_;
  Env env_;
  std::vector<PathItem> path_;
  std::vector<const Loop*> loops_;
  std::vector<Lin> zero_, bounds_;
  std::vector<Set> sets_;
  std::vector<V> vars_, inner_;
  const Block* block_ = nullptr;
  std::vector<Read>* reads_ = nullptr;
};

Model::Model(Sets& home, const PrimFunc& f, std::map<std::string, V>& dims)
    : home_(home), func_(f), dims_domain_(Set::all(home)) {
  for (const Var& d : f.dims) {
    const auto [it, added] = dims.try_emplace(d->name, -1);
    if (added) it->second = home.make(d->name);
    dims_env_[d] = Lin::of(it->second);
    dim_vars_.push_back(it->second);
    dims_domain_ = dims_domain_ & Set::where(home, {}, {Lin::of(it->second) - Lin(1)});
  }
  decls_ = declarations(f);
  ModelBuilder(*this).run();
}

std::vector<const Statement*> Model::writers(const Buffer& b) const {
  std::vector<const Statement*> out;
  for (const Statement& s : statements_)
    if (s.buffer == b) out.push_back(&s);
  return out;
}

size_t Model::alloc_depth(const Buffer& b) const {
  const auto it = alloc_depth_.find(b);
  return it == alloc_depth_.end() ? 0 : it->second;
}

int Model::param_of(const Buffer& b) const {
  for (size_t i = 0; i < func_.params.size(); ++i)
    if (func_.params[i].decl.buffer == b) return static_cast<int>(i);
  return -1;
}

bool Model::is_dim(V v) const {
  return std::find(dim_vars_.begin(), dim_vars_.end(), v) != dim_vars_.end();
}

bool Model::is_input(const Buffer& b) const {
  const int p = param_of(b);
  return p >= 0 && func_.params[static_cast<size_t>(p)].role != Role::out;
}

Lin Model::shape(const Buffer& b, size_t dim) const {
  const Expr& e = decls_.at(b).shape.at(dim);
  const auto l = lower(e, dims_env_);
  if (!l) throw Unmodelled{"buffer " + b->name + ": the size " + print(e) + " isn't linear"};
  return *l;
}

}  // namespace nestor::verify
