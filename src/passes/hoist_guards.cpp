// Moves guards as far out as possible, and shortens loops to what their guards allow.
//
//   for i { if (c) S }            ->  if (c) { for i S }           where c doesn't depend on i
//   if (c) A; if (c) B            ->  if (c) { A; B }
//   for i in 14 { if (i < 9) S }  ->  for i in 9 S
//   for i in 5 { if (i >= n) S }  ->  for i in 5 - max(n, 0) { S of i + max(n, 0) }
//
// The third rule gives the rest of a peeled loop constant extents, so that the indices of its register tile
// stay constant. If the bound isn't constant, only serial and parallel loops are shortened. Conditions that
// read memory stay where they are.
#include <algorithm>

#include "nestor/walk.h"
#include "src/passes/linear.h"
#include "src/passes/passes.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

// What a condition says of one variable: v < bound, or v >= bound.
struct Bound {
  bool upper;
  Expr value;
};

std::optional<Bound> bound_of(const Expr& condition, const Var& v, const Facts& facts) {
  const auto* b = condition.as<Binary>();
  if (!b || b->a.type() != Type{}) return std::nullopt;
  Expr low = b->a, high = b->b;  // low < high
  switch (b->op) {
    case BinaryOp::lt:
      break;
    case BinaryOp::le:
      high = high + 1;
      break;
    case BinaryOp::gt:
      std::swap(low, high);
      break;
    case BinaryOp::ge:
      std::swap(low, high);
      high = high + 1;
      break;
    default:
      return std::nullopt;
  }
  const auto s = strided(low - high, v);  // base + stride * v < 0
  const auto stride = s ? as_int(simplify(s->stride)) : std::nullopt;
  if (!stride || *stride == 0) return std::nullopt;
  if (*stride == 1) return Bound{true, simplify(Expr(0) - s->base, facts)};
  if (*stride == -1) return Bound{false, simplify(s->base + 1, facts)};
  const auto base = as_int(simplify(s->base, facts));
  if (!base) return std::nullopt;
  if (*stride > 0) return Bound{true, Expr(*stride - 1 - *base) / *stride};  // v < ceil(-base / stride)
  return Bound{false, Expr(*base) / -*stride + 1};                           // v > base / -stride
}

class Hoister : public ScopedRewriter {
 public:
  using ScopedRewriter::ScopedRewriter;
  Stmt stmt(const Stmt& s) override {
    const size_t around = lanes_.size();
    if (const auto* f = s.as<For>(); f && f->kind == ForKind::vectorized) lanes_.push_back(f->var);
    if (const auto* l = s.as<LetStmt>(); l && uses_lanes(l->value)) lanes_.push_back(l->var);
    Stmt out = ScopedRewriter::stmt(s);
    lanes_.resize(around);
    if (const auto* loop = out.as<For>()) return hoist(out, *loop);
    if (const auto* seq = out.as<Seq>()) return merge(out, *seq);
    if (const auto* outer = out.as<If>(); outer && !outer->else_case)
      if (const auto* inner = outer->then_case.as<If>(); inner && !inner->else_case)
        return make::if_then(logical_and(outer->cond, inner->cond), inner->then_case);
    return out;
  }

 private:
  Stmt hoist(const Stmt& s, const For& loop) {
    const auto* guard = loop.body.as<If>();
    if (!guard || guard->else_case) return s;
    std::vector<Expr> outside, inside;
    Expr first = 0, extent = loop.extent;
    for (const Expr& c : conjuncts(guard->cond)) {
      if (has_load(c) || !inside_only(inside)) {
        inside.push_back(c);
      } else if (!uses_var(c, loop.var)) {
        outside.push_back(c);
      } else if (!cut(c, loop, first, extent)) {
        inside.push_back(c);
      }
    }
    if (inside.size() == conjuncts(guard->cond).size()) return s;
    Stmt body = inside.empty() ? guard->then_case : make::if_then(conjunction(inside), guard->then_case);
    if (as_int(first) != 0) {
      body = substitute(body, VarMap{{loop.var, Expr(loop.var) + first}});
      extent = simplify(max(extent - first, 0), facts());
    }
    Stmt out = make::loop(loop.var, extent, std::move(body), loop.kind, loop.thread, loop.annotations);
    return outside.empty() ? out : make::if_then(conjunction(outside), std::move(out));
  }
  // Conditions behind one that reads memory may rely on it: they stay behind it.
  static bool inside_only(const std::vector<Expr>& inside) {
    for (const Expr& c : inside)
      if (has_load(c)) return false;
    return true;
  }

  // Folds the condition into the loop's range [first, extent), if it is a bound that the loop can take.
  bool cut(const Expr& c, const For& loop, Expr& first, Expr& extent) {
    const auto bound = loop.kind == ForKind::thread ? std::nullopt : bound_of(c, loop.var, facts());
    if (!bound) return false;
    const bool dynamic = (loop.kind == ForKind::serial || loop.kind == ForKind::parallel) &&
                         !uses_lanes(bound->value);  // which run to one end
    if (!(as_int(bound->value) && as_int(first) && as_int(extent)) && (!dynamic || has_load(bound->value)))
      return false;
    if (bound->upper)
      extent = simplify(min(extent, max(bound->value, 0)), facts());
    else
      first = simplify(max(first, bound->value), facts());
    return true;
  }

  bool uses_lanes(const Expr& e) const {
    return std::any_of(lanes_.begin(), lanes_.end(), [&](const Var& v) { return uses_var(e, v); });
  }

  std::vector<Var> lanes_;  // of the vectorized loops around, and names of what differs by lane

  static Stmt merge(const Stmt& s, const Seq& seq) {
    std::vector<Stmt> out;
    for (const Stmt& next : seq.stmts) {
      const auto* b = next.as<If>();
      const auto* a = out.empty() ? nullptr : out.back().as<If>();
      const bool joins =
          a && b && !a->else_case && !b->else_case && !has_load(a->cond) && same_expr(a->cond, b->cond);
      if (joins)
        out.back() = make::if_then(a->cond, make::seq({a->then_case, b->then_case}));
      else
        out.push_back(next);
    }
    return out.size() == seq.stmts.size() ? s : make::seq(std::move(out));
  }
};

}  // namespace

PrimFunc hoist_guards(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Hoister(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes
