// Sums are kept in order of first appearance, so that what is built from them is the same on every run.
#include "src/passes/linear.h"

#include "nestor/walk.h"

namespace nestor::passes {

namespace {

void add(Linear& sum, const Expr& e, int64_t factor) {
  if (const auto value = as_int(e)) {
    sum.constant += factor * *value;
    return;
  }
  if (const auto* b = e.as<Binary>()) {
    if (b->op == BinaryOp::add || b->op == BinaryOp::sub) {
      add(sum, b->a, factor);
      return add(sum, b->b, b->op == BinaryOp::add ? factor : -factor);
    }
    if (b->op == BinaryOp::mul) {
      if (const auto c = as_int(b->b)) return add(sum, b->a, factor * *c);
      if (const auto c = as_int(b->a)) return add(sum, b->b, factor * *c);
    }
  }
  for (auto& [atom, coefficient] : sum.terms)
    if (same_expr(atom, e)) {
      coefficient += factor;
      return;
    }
  sum.terms.emplace_back(e, factor);
}

}  // namespace

Linear linear(const Expr& e) {
  Linear sum;
  add(sum, e, 1);
  std::erase_if(sum.terms, [](const auto& t) { return t.second == 0; });
  return sum;
}

Expr to_expr(const Linear& sum) {
  Expr out = 0;
  for (const auto& [atom, coefficient] : sum.terms) out = out + atom * coefficient;
  return out + sum.constant;
}

std::optional<Strided> strided(const Expr& e, const Var& v) {
  if (const auto* r = e.as<VarRef>(); r && r->var == v) return Strided{0, 1};
  if (!uses_var(e, v)) return Strided{e, 0};
  const auto* b = e.as<Binary>();
  if (!b) return std::nullopt;
  const auto x = strided(b->a, v), y = strided(b->b, v);
  if (!x || !y) return std::nullopt;
  switch (b->op) {
    case BinaryOp::add:
      return Strided{x->base + y->base, x->stride + y->stride};
    case BinaryOp::sub:
      return Strided{x->base - y->base, x->stride - y->stride};
    case BinaryOp::mul:
      if (is_const_int(y->stride, 0)) return Strided{x->base * y->base, x->stride * y->base};
      if (is_const_int(x->stride, 0)) return Strided{x->base * y->base, x->base * y->stride};
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace nestor::passes
