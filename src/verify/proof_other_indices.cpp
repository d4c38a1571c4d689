// Indices that aren't linear: those that depend on data, X[i64(I[v])], and products of loops, X[v*w]. The
// model doesn't know their values. But a clamp or a condition around them may keep them inside of the buffer,
// which the ranges of the simplifier show.
#include <unordered_set>

#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/verify/proof_checks.h"

namespace nestor::verify {

namespace {

class OtherIndices : public Walker {
 public:
  explicit OtherIndices(const PrimFunc& f) : decls_(declarations(f)) {
    for (const Var& d : f.dims) facts_.set(d, {1, Interval::kMax});
  }

  void expr(const Expr& e) override {
    if (const auto* l = e.as<Load>()) access(l->buffer, l->indices, " reads ", e.get());
    if (const auto* s = e.as<Select>()) {
      expr(s->cond);
      assuming(s->cond, [&] { expr(s->a); });
      assuming(logical_not(s->cond), [&] { expr(s->b); });
    } else if (const auto* b = e.as<Binary>();
               b && (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or)) {
      expr(b->a);
      assuming(b->op == BinaryOp::logical_and ? b->a : logical_not(b->a), [&] { expr(b->b); });
    } else if (const auto* let = e.as<Let>()) {
      expr(let->value);
      bind(let->var, let->value);
      expr(let->body);
    } else {
      children(e);
    }
  }

  // Of an index that depends on data rather than of another one.
  std::optional<Failure> failure;
  bool depends_on_data = false;

  void stmt(const Stmt& s) override {
    if (const auto* l = s.as<For>()) {
      expr(l->extent);
      enter(l->var, l->extent);
      stmt(l->body);
    } else if (const auto* b = s.as<Block>()) {
      block(*b);
    } else if (const auto* i = s.as<If>()) {
      expr(i->cond);
      assuming(i->cond, [&] { stmt(i->then_case); });
      if (i->else_case) assuming(logical_not(i->cond), [&] { stmt(i->else_case); });
    } else if (const auto* let = s.as<LetStmt>()) {
      expr(let->value);
      bind(let->var, let->value);
      stmt(let->body);
    } else if (!s.as<Evaluate>()) {  // a prefetch may point anywhere
      if (const auto* st = s.as<Store>()) access(st->buffer, st->indices, " writes ", s.get());
      if (const auto* u = s.as<Update>()) access(u->buffer, u->indices, " updates ", s.get());
      children(s);
    }
  }

 private:
  template <class F>
  void assuming(const Expr& condition, F&& f) {
    if (condition.type().is_vector()) return f();
    Facts saved = facts_;
    facts_.assume(condition);
    f();
    facts_ = std::move(saved);
  }

  void enter(const Var& v, const Expr& extent) {
    const Interval n = range_of(extent, facts_);
    facts_.set(v, {0, n.hi >= Interval::kMax ? Interval::kMax : n.hi - 1});
  }

  void bind(const Var& v, const Expr& value) {
    if (uses_data(value)) data_.insert(v);
    if (value.type() == Type{}) facts_.set(v, range_of(value, facts_));
  }

  void block(const Block& b) {
    for (const IterVar& i : b.iters) enter(i.var, i.extent);
    const std::string outer = std::exchange(name_, "block " + b.id->name);
    const auto inside = [&] {
      if (b.init) stmt(b.init);
      stmt(b.body);
    };
    if (b.where) expr(b.where);
    if (b.where)
      assuming(b.where, inside);
    else
      inside();
    name_ = outer;
  }

  bool uses_data(const Expr& e) const {
    bool found = has_load(e);
    for_each_expr(e, [&](const Expr& inner) {
      const auto* v = inner.as<VarRef>();
      found = found || (v && data_.count(v->var));
    });
    return found;
  }

  // As the model lowers it, or a constant times something.
  static bool is_linear(const Expr& e) {
    if (e.as<IntImm>() || e.as<VarRef>()) return true;
    if (const auto* u = e.as<Unary>()) return u->op == UnaryOp::neg && is_linear(u->a);
    if (const auto* s = e.as<Select>())
      return is_linear_condition(s->cond) && is_linear(s->a) && is_linear(s->b);
    const auto* b = e.as<Binary>();
    if (!b || b->op > BinaryOp::max || !is_linear(b->a) || !is_linear(b->b)) return false;
    if (b->op == BinaryOp::mul) return b->a.as<IntImm>() || b->b.as<IntImm>();
    return (b->op != BinaryOp::div && b->op != BinaryOp::mod) || as_int(b->b).value_or(0) > 0;
  }

  static bool is_linear_condition(const Expr& e) {
    if (e.as<IntImm>()) return true;
    if (const auto* u = e.as<Unary>()) return is_linear_condition(u->a);
    const auto* b = e.as<Binary>();
    if (!b) return false;
    if (is_comparison(b->op)) return is_linear(b->a) && is_linear(b->b);
    return is_linear_condition(b->a) && is_linear_condition(b->b);
  }

  void access(const Buffer& b, const std::vector<Expr>& indices, const std::string& verb, const void* at) {
    for (size_t d = 0; d < indices.size(); ++d) {
      const Expr& i = indices[d];
      const bool data = uses_data(i);
      if ((!data && is_linear(i)) || depends_on_data) continue;
      const bool inside = !i.type().is_vector() && can_prove(le(0, i), facts_) &&
                          can_prove(lt(i, decls_.at(b).shape[d]), facts_);
      if (inside || (failure && !data)) continue;
      depends_on_data = data;
      failure =
          Failure{Verdict::unproved,
                  name_ + verb + b->name + " at " + print(i) +
                      (data ? ", which depends on data and isn't seen" : ", which isn't linear or seen") +
                      " to lie within 0 to " + print(simplify(decls_.at(b).shape[d] - 1)),
                  "",
                  {at}};
    }
  }

  const std::unordered_map<Buffer, BufferDecl> decls_;
  Facts facts_;
  std::unordered_set<Var> data_;
  std::string name_ = "the function";
};

}  // namespace

void check_other_indices(const PrimFunc& f, bool& depends_on_data) {
  OtherIndices o(f);
  o.stmt(f.body);
  depends_on_data = o.depends_on_data;
  if (o.failure) throw *o.failure;
}

void require_known_effects(const PrimFunc& f) {
  for_each_stmt(f.body, [](const Stmt& s) {
    const auto* e = s.as<Evaluate>();
    const auto* call = e ? e->call.as<Call>() : nullptr;
    if (call && call->fn != Intrinsic::prefetch)
      throw Unmodelled{"`" + print(s) + "` is of a kind that the proof doesn't know"};
  });
}

}  // namespace nestor::verify
