// Ranges never need to be taken back: every variable is bound once in a function, so a range stays true where
// the variable is out of scope. Conditions do: they hold only under their branch.
#include "src/passes/scoped.h"

namespace nestor::passes {

Facts facts_of_sizes(const PrimFunc& f) {
  Facts facts;
  for (const Var& d : f.dims) facts.set(d, {0, Interval::kMax});
  return facts;
}

void ScopedRewriter::enter(const For& loop) {
  const Interval extent = range_of(loop.extent, facts_);
  facts_.set(loop.var, {0, extent.hi >= Interval::kMax ? Interval::kMax : extent.hi - 1});
}

Stmt ScopedRewriter::stmt(const Stmt& s) {
  if (const auto* loop = s.as<For>()) {
    enter(*loop);
    if (as_int(loop->extent)) return children(s);
    return assuming(below(loop->var, loop->extent), [&] { return children(s); });
  }
  if (const auto* let = s.as<LetStmt>()) {
    if (is_int(let->value.dtype()) && !let->value.type().is_vector())
      facts_.set(let->var, range_of(let->value, facts_));
    return children(s);
  }
  if (const auto* branch = s.as<If>()) {
    Expr cond = expr(branch->cond);
    Stmt then_case = assuming(cond, [&] { return stmt(branch->then_case); });
    Stmt else_case;
    if (branch->else_case) else_case = assuming(logical_not(cond), [&] { return stmt(branch->else_case); });
    if (!then_case && !else_case) return {};
    if (!then_case) return make::if_then(logical_not(cond), else_case);
    if (cond.same_as(branch->cond) && then_case.same_as(branch->then_case) &&
        (else_case ? else_case.same_as(branch->else_case) : !branch->else_case))
      return s;
    return make::if_then(std::move(cond), std::move(then_case), std::move(else_case));
  }
  return children(s);
}

Expr below(const Expr& i, const Expr& end) {
  const auto* b = end.as<Binary>();
  if (b && b->op == BinaryOp::min) return logical_and(below(i, b->a), below(i, b->b));
  if (b && b->op == BinaryOp::max && is_const_int(b->b, 0)) return below(i, b->a);
  const auto more = b && (b->op == BinaryOp::add || b->op == BinaryOp::sub) ? as_int(b->b) : std::nullopt;
  const auto* inner = more ? b->a.as<Binary>() : nullptr;
  if (inner && inner->op == BinaryOp::min) {
    const auto shifted = [&](const Expr& e) {
      return below(i, b->op == BinaryOp::add ? e + *more : e - *more);
    };
    return logical_and(shifted(inner->a), shifted(inner->b));
  }
  return lt(i, end);
}

std::vector<Expr> conjuncts(const Expr& condition) {
  if (const auto* b = condition.as<Binary>(); b && b->op == BinaryOp::logical_and) {
    std::vector<Expr> out = conjuncts(b->a);
    for (Expr& e : conjuncts(b->b)) out.push_back(std::move(e));
    return out;
  }
  return {condition};
}

Expr conjunction(const std::vector<Expr>& conditions) {
  Expr out = make::bool_imm(true);
  for (const Expr& c : conditions) out = logical_and(out, c);
  return out;
}

bool has_loop_annotation(const PrimFunc& f, std::string_view prefix) {
  bool any = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* l = s.as<For>())
      for (const auto& [key, value] : l->annotations) any = any || key.starts_with(prefix);
  });
  return any;
}

}  // namespace nestor::passes
