#include "src/passes/row_guards.h"

#include <algorithm>

#include "src/passes/linear.h"

namespace nestor::passes {

std::optional<Below> as_below(const Expr& condition, const Var& v) {
  const auto* b = condition.as<Binary>();
  if (!b || b->a.type() != Type{}) return std::nullopt;
  Expr difference;
  if (b->op == BinaryOp::lt) difference = b->a - b->b;
  if (b->op == BinaryOp::le) difference = b->a - b->b - 1;
  if (b->op == BinaryOp::gt) difference = b->b - b->a;
  if (b->op == BinaryOp::ge) difference = b->b - b->a - 1;
  if (!difference) return std::nullopt;
  const auto s = strided(difference, v);
  const auto stride = s ? as_int(simplify(s->stride)) : std::nullopt;
  if (!stride || *stride == 0) return std::nullopt;
  return Below{simplify(s->base), *stride};
}

Inside::Inside(const Stmt& body, const Facts& around) : facts(around) {
  for_each_stmt(body, [&](const Stmt& s) {
    if (const auto* l = s.as<LetStmt>()) bound.insert(l->var);
    const auto* f = s.as<For>();
    if (!f) return;
    bound.insert(f->var);
    loops[f->var] = as_int(f->extent).value_or(0);
    const Interval extent = range_of(f->extent, facts);
    facts.set(f->var, {0, extent.hi >= Interval::kMax ? Interval::kMax : extent.hi - 1});
  });
  for_each_expr(body, [&](const Expr& e) {
    if (const auto* l = e.as<Let>()) bound.insert(l->var);
  });
}

bool Inside::varies(const Expr& e) const {
  return std::any_of(bound.begin(), bound.end(), [&](const Var& v) { return uses_var(e, v); });
}

Expr Inside::highest(const Expr& e) const {
  Linear fixed = linear(e);
  for (auto& [atom, coefficient] : fixed.terms) {
    if (!varies(atom)) continue;
    const Interval r = range_of(atom, facts);
    if (r.lo <= Interval::kMin || r.hi >= Interval::kMax) return {};
    fixed.constant += coefficient * (coefficient > 0 ? r.hi : r.lo);
    coefficient = 0;
  }
  std::erase_if(fixed.terms, [](const auto& t) { return t.second == 0; });
  return to_expr(fixed);
}

std::optional<Row> row_of(const Below& b, const Inside& inside) {
  Linear rest = linear(b.base);
  std::optional<Row> out;
  for (auto& [atom, coefficient] : rest.terms) {
    if (!inside.varies(atom)) continue;
    const auto* r = atom.as<VarRef>();
    const auto loop = r ? inside.loops.find(r->var) : inside.loops.end();
    if (out || loop == inside.loops.end() || coefficient != 1 || loop->second != b.stride)
      return std::nullopt;
    out = Row{r->var, {}};
    coefficient = 0;
  }
  if (!out) return std::nullopt;
  std::erase_if(rest.terms, [](const auto& t) { return t.second == 0; });
  out->size = simplify(Expr(0) - to_expr(rest));
  return out;
}

}  // namespace nestor::passes
