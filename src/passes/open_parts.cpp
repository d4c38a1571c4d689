#include "src/passes/open_parts.h"

#include <algorithm>

#include "src/passes/row_guards.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

struct Quotient {
  Expr of;
  int64_t by;
};
std::optional<Quotient> as_quotient(const Expr& e) {
  const auto* q = e.as<Binary>();
  const auto more = q && (q->op == BinaryOp::add || q->op == BinaryOp::sub) ? as_int(q->b) : std::nullopt;
  const int64_t whole = !more ? 0 : q->op == BinaryOp::add ? *more : -*more;
  if (more) q = q->a.as<Binary>();
  const auto by = q && q->op == BinaryOp::div ? as_int(q->b) : std::nullopt;
  return by && *by > 0 ? std::optional(Quotient{q->a + whole * *by, *by}) : std::nullopt;
}

bool at_most(const Expr& a, const Expr& b, const Facts& facts) {
  if (can_prove(le(a, b), facts)) return true;
  const auto x = as_quotient(a), y = as_quotient(b);
  return x && y && x->by == y->by && can_prove(le(x->of, y->of), facts);
}

}  // namespace

Expr lesser(const Expr& a, const Expr& b, const Facts& facts) {
  if (const auto* least = a.as<Binary>(); least && least->op == BinaryOp::min) {
    if (at_most(least->a, b, facts) || at_most(least->b, b, facts)) return a;
    if (at_most(b, least->a, facts)) return lesser(least->b, b, facts);
  }
  if (at_most(a, b, facts)) return a;
  return at_most(b, a, facts) ? b : simplify(min(a, b), facts);
}

std::optional<OpenParts> open_parts(const Var& v, const Expr& extent, const std::vector<Expr>& conditions,
                                    const Stmt& body, const Facts& facts) {
  constexpr int64_t kFurthest = 1 << 10;  // the first iteration without guards
  Inside inside(body, facts);
  inside.facts.set(v, {0, Interval::kMax});
  inside.facts.assume(lt(v, extent));
  OpenParts out;
  bool clash = false;
  for (const Expr& c : conditions) {
    if (can_prove(c, inside.facts)) continue;
    const auto below = as_below(c, v);
    if (!below) continue;
    const Expr highest = inside.highest(below->base);
    if (!highest) continue;
    if (below->stride < 0) {  // v > highest / -stride
      const auto base = as_int(simplify(highest));
      if (!base || *base < 0 || *base / -below->stride >= kFurthest) continue;
      out.first = std::max(out.first, *base / -below->stride + 1);
      out.only_rows = false;
      continue;
    }
    const Expr end = simplify((Expr(below->stride - 1) - highest) / below->stride, facts);
    const auto row = row_of(*below, inside);
    out.only_rows = out.only_rows && row;
    if (row) {
      clash = clash || (out.size && !(same_expr(out.size, row->size) && out.step == below->stride));
      out.size = row->size;
      out.step = below->stride;
    }
    out.full = out.full ? lesser(out.full, end, facts) : end;
  }
  if (clash) out.size = {};
  return out.full || out.first ? std::optional(out) : std::nullopt;
}

}  // namespace nestor::passes
