// The rules, by node. What no lane changes stays scalar as long as it can, so that loads that feed all lanes
// become one scalar load and a broadcast, and index arithmetic stays out of the vectors. An index that grows
// evenly with the lane is a ramp; everything else gathers.
#include "src/passes/widen.h"

#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/lane_of.h"
#include "src/passes/linear.h"
#include "src/passes/refuse.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

Expr mask_and(const Expr& a, const Expr& b) {
  if (!a) return b;
  return b ? logical_and(a, b) : a;
}

Expr mask_of_first(const Expr& count, int lanes) {
  if (is_const_int(count, lanes)) return {};
  return lt(make::ramp(0, 1, lanes), make::broadcast(count, lanes));
}

void set_lane(Facts& facts, const Var& lane, const Expr& count, int lanes) {
  facts.set(lane, {0, as_int(count).value_or(lanes) - 1});
  if (!as_int(count)) facts.assume(lt(lane, count));
}

bool Widener::varies(const Expr& e) const {
  bool found = false;
  for_each_expr(e, [&](const Expr& inner) {
    const auto* r = inner.as<VarRef>();
    found = found || (r && (r->var == lane_ || widened_.count(r->var)));
  });
  return found;
}

Var Widener::widen_var(const Var& v) {
  Var wide = make_var(v->name, v->type.with_lanes(lanes_));
  widened_[v] = wide;
  return wide;
}

bool Widener::safe(const Expr& e) const {
  bool ok = true;
  for_each_expr(e, [&](const Expr& inner) {
    const auto* l = inner.as<Load>();
    if (!l || !ok) return;
    const auto size = sizes_.find(l->buffer);
    ok = size != sizes_.end() &&
         can_prove(logical_and(le(0, l->indices[0]), lt(l->indices[0], size->second)), facts_);
  });
  return ok;
}

Expr Widener::widen(const Expr& e, const Expr& mask) {
  const Type wide = e.type().with_lanes(lanes_);
  if (e.type().is_vector())
    refuse("a vector, " + print(e) + ", is in a vectorized loop", "make the loop serial, or unrolled");
  if (!varies(e) && (!mask || safe(e))) return e;
  if (e.type() == Type{} && (!mask || safe(e)))
    if (const auto s = strided(e, lane_); s && !varies(s->base) && !varies(s->stride))
      return make::ramp(simplify(s->base, facts_), simplify(s->stride, facts_), lanes_);
  return match(
      e, [&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; },
      [&](const VarRef& r) -> Expr {
        const auto it = widened_.find(r.var);
        return it == widened_.end() ? e : Expr(it->second);
      },
      [&](const Load& l) { return load(l, mask); }, [&](const Binary& b) { return binary(b, mask); },
      [&](const Unary& u) { return make::unary(u.op, widen(u.a, mask)); },
      [&](const Select& s) { return select(s, mask); },
      [&](const Cast& c) {
        Expr a = widen(c.a, mask);
        return make::cast(e.type().with_lanes(a.type().lanes), a);
      },
      [&](const Call& c) {
        std::vector<Expr> args;
        for (const Expr& a : c.args) args.push_back(widen_to_vector(a, mask));
        if (c.fn == Intrinsic::instruction)
          refuse("the hardware instruction " + c.name + " is in a vectorized loop", "make the loop serial");
        if (c.fn == Intrinsic::bitcast) return make::bitcast(wide, args[0]);
        if (c.fn == Intrinsic::tdiv && mask && !as_int(args[1]))
          args[1] = make::select(mask, args[1], make::imm(1, args[1].type()));
        return make::call(c.fn, std::move(args));
      },
      [&](const Let& l) {
        Expr value = widen(l.value, mask);
        Var v = value.type().is_vector() ? widen_var(l.var) : l.var;
        return make::let(v, std::move(value), widen(l.body, mask));
      },
      [&](const Ramp&) { return e; }, [&](const Broadcast&) { return e; },
      [&](const VectorReduce&) { return e; }, [&](const Shuffle&) { return e; });
}

// A condition that is read from memory lane by lane hides no load that is inside anyway: a masked one may go
// by single elements (And of bytes on AVX2: forty times the time).
Expr Widener::mask_of(const Load& l, const Expr& mask) const {
  if (!mask || !has_load(mask) || !safe(make::load(l.buffer, l.indices))) return mask;
  Expr kept;
  for (const Expr& c : conjuncts(mask))
    if (!has_load(c)) kept = mask_and(kept, c);
  return kept;
}

Expr Widener::load(const Load& l, const Expr& wanted) {
  const Expr mask = mask_of(l, wanted);
  Expr index = widen(l.indices[0], mask);
  if (!index.type().is_vector()) {
    // All lanes read one element. Where the first lane may, one load does; maybe none may: then the mask
    // decides.
    const Expr first = mask ? lane_of(mask, 0) : Expr();
    if (first && can_prove(first, facts_)) return make::load(l.buffer, {std::move(index)});
    index = make::ramp(index, 0, lanes_);
  }
  return make::load(l.buffer, {std::move(index)}, mask);
}

// Comparisons and arithmetic by lane; scalars are spread only where they meet a vector.
Expr Widener::binary(const Binary& b, const Expr& mask) {
  if (b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or) {
    const bool is_and = b.op == BinaryOp::logical_and;
    Expr x = widen(b.a, mask);
    // The right operand is evaluated only in the lanes that the left one leaves open.
    Expr right_mask = mask;
    if (x.type().is_vector()) right_mask = mask_and(mask, is_and ? x : logical_not(x));
    Expr y = widen(b.b, right_mask);
    if (!x.type().is_vector() && !y.type().is_vector()) return make::binary(b.op, x, y);
    if (!x.type().is_vector() && has_load(y))
      return is_and ? make::select(x, y, make::imm(0, y.type())) : make::select(x, make::imm(1, y.type()), y);
    return make::binary(b.op, spread(x), spread(y));
  }
  Expr x = widen(b.a, mask), y = widen(b.b, mask);
  if (x.type() != y.type()) {
    x = spread(x);
    y = spread(y);
  }
  const bool divides = b.op == BinaryOp::div || b.op == BinaryOp::mod;
  if (divides && mask && is_int(x.dtype()) && y.type().is_vector() && !as_int(y))
    y = make::select(mask, y, make::imm(1, y.type()));
  return make::binary(b.op, std::move(x), std::move(y));
}

Expr Widener::select(const Select& s, const Expr& mask) {
  // Conditions that are the same for all lanes stay lazy branches around the rest, where the other side is
  // cheap to repeat.
  const bool repeatable = s.b.as<FloatImm>() || s.b.as<IntImm>() || s.b.as<VarRef>();
  std::vector<Expr> same, differing;
  for (const Expr& c : conjuncts(s.cond))
    (repeatable && !varies(c) && differing.empty() ? same : differing).push_back(c);
  if (!same.empty() && !differing.empty()) {
    Expr inner = widen_to_vector(make::select(conjunction(differing), s.a, s.b), mask);
    Expr cond = widen(conjunction(same), mask);
    return make::select(cond, std::move(inner), widen_to_vector(s.b, mask));
  }
  Expr cond = widen(s.cond, mask);
  if (!cond.type().is_vector()) {
    Expr a = widen(s.a, mask), b = widen(s.b, mask);
    if (a.type() == b.type()) return make::select(cond, a, b);
    return make::select(cond, spread(a), spread(b));
  }
  Expr a = widen_to_vector(s.a, mask_and(mask, cond));
  Expr b = widen_to_vector(s.b, mask_and(mask, logical_not(cond)));
  return make::select(cond, std::move(a), std::move(b));
}

}  // namespace nestor::passes
