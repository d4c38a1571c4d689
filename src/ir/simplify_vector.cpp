// Index vectors and masks are simplified as scalars, in which the lane number is one more variable with a
// known range: ramp(b, s, 16) is b + s*lane. So all scalar rules apply (a quotient of a ramp that stays
// within one block becomes a broadcast, a mask that always holds becomes true). If the result is affine in
// the lane, it becomes a ramp again. Other vector expressions (loads, casts from floats) are treated as
// variables.
#include "nestor/error.h"
#include "src/ir/simplifier.h"

namespace nestor::algebra {

namespace {

bool is_index_or_mask(const Expr& e) {
  return e.dtype() == DType::i64 || is_bool(e.dtype());
}

// Whether a vector is an operation on parts that have scalar forms.
bool has_scalar_form(const Expr& e) {
  if (const auto* b = e.as<Binary>()) return is_index_or_mask(b->a);
  return e.as<Broadcast>() || e.as<Ramp>() || e.as<Unary>() || e.as<Select>();
}

}  // namespace

const Var& Simplifier::lane_var(int lanes) {
  Var& v = lane_vars_[lanes];
  if (!v) {
    v = make_var("lane");
    ranges_[v] = {0, lanes - 1};  // for good, in no scope
  }
  return v;
}

Expr Simplifier::vector(const Expr& e) {
  const size_t outer = opaque_.size();
  const Expr out = vectorize(expr(scalarize(e)), e.type().lanes);
  opaque_.resize(outer);
  return out;
}

Expr Simplifier::scalarize(const Expr& e) {
  if (!e.type().is_vector()) return e;
  if (const auto* b = e.as<Broadcast>()) return b->a;
  if (const auto* r = e.as<Ramp>()) {
    const Expr lane(lane_var(e.type().lanes));
    return make::binary(BinaryOp::add, r->base, make::binary(BinaryOp::mul, r->stride, lane));
  }
  if (const auto* b = e.as<Binary>(); b && has_scalar_form(e))
    return make::binary(b->op, scalarize(b->a), scalarize(b->b));
  if (const auto* u = e.as<Unary>()) return make::unary(u->op, scalarize(u->a));
  if (const auto* s = e.as<Select>())
    return make::select(scalarize(s->cond), scalarize(s->a), scalarize(s->b));
  const Expr simple = scalar_rules(e);
  if (has_scalar_form(simple)) return scalarize(simple);
  for (const auto& [v, known] : opaque_)
    if (same_expr(known, simple)) return Expr(v);
  opaque_.emplace_back(make_var("vector", e.type().with_lanes(1)), simple);
  return Expr(opaque_.back().first);
}

bool Simplifier::varies(const Expr& e) const {
  bool found = false;
  for_each_expr(e, [&](const Expr& inner) {
    const auto* r = inner.as<VarRef>();
    if (!r || found) return;
    for (const auto& [lanes, v] : lane_vars_) found = found || v == r->var;
    for (const auto& [v, vector] : opaque_) found = found || v == r->var;
  });
  return found;
}

Expr Simplifier::vectorize(const Expr& e, int lanes) {
  if (!varies(e)) return make::broadcast(e, lanes);
  const auto is_lane = [&](const Expr& x) {
    return x.as<VarRef>() && x.as<VarRef>()->var == lane_var(lanes);
  };
  return match(
      e,
      [&](const VarRef& r) {
        for (const auto& [v, vector] : opaque_)
          if (v == r.var) return vector;
        NESTOR_CHECK(r.var == lane_var(lanes))
            << "a vector of " << lanes << " lanes holds one of another width";
        return make::ramp(Expr(0), Expr(1), lanes);
      },
      [&](const Binary& b) {
        if (e.dtype() == DType::i64 && b.op <= BinaryOp::mul) {
          const Linear sum = parts(e);
          const bool scaled_lane = (is_lane(b.a) && !varies(b.b)) || (is_lane(b.b) && !varies(b.a));
          if (!is_atom(sum, e) || (b.op == BinaryOp::mul && scaled_lane)) return vectorize_sum(sum, lanes);
        }
        const Expr y = vectorize(b.b, lanes);
        // A vector's right operand is always evaluated, and may read what isn't there.
        const bool logical = b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or;
        if (logical && !varies(b.a) && has_load(y)) {
          const Expr decided = make::broadcast(make::bool_imm(b.op == BinaryOp::logical_or), lanes);
          return b.op == BinaryOp::logical_and ? make::select(b.a, y, decided)
                                               : make::select(b.a, decided, y);
        }
        return make::binary(b.op, vectorize(b.a, lanes), y);
      },
      [&](const Unary& u) { return make::unary(u.op, vectorize(u.a, lanes)); },
      [&](const Select& s) {
        const Expr cond = varies(s.cond) ? vectorize(s.cond, lanes) : s.cond;
        return make::select(cond, vectorize(s.a, lanes), vectorize(s.b, lanes));
      },
      [&](const Let& l) -> Expr {
        if (!varies(l.value)) return make::let(l.var, l.value, vectorize(l.body, lanes));
        return vectorize(substitute(l.body, VarMap{{l.var, l.value}}), lanes);
      },
      [&](const Cast& c) { return make::cast(e.type().with_lanes(lanes), vectorize(c.a, lanes)); },
      [&](const Call& c) {
        std::vector<Expr> args;
        for (const Expr& a : c.args) args.push_back(vectorize(a, lanes));
        NESTOR_CHECK(c.fn != Intrinsic::instruction) << c.name << " in a scalar that becomes a vector";
        if (c.fn == Intrinsic::bitcast) return make::bitcast(e.type().with_lanes(lanes), args[0]);
        return make::call(c.fn, std::move(args));
      },
      [&](const Load& l) {
        std::vector<Expr> indices;
        for (const Expr& i : l.indices) indices.push_back(vectorize(i, lanes));
        return make::load(l.buffer, std::move(indices));
      },
      [&](const auto&) -> Expr {
        NESTOR_CHECK(false) << "a vector stands where a scalar was made of it";
        return e;
      });
}

Expr Simplifier::vectorize_sum(const Linear& l, int lanes) {
  const Expr lane(lane_var(lanes));
  Linear base = Linear::of_constant(l.constant), stride;
  std::vector<Term> others;
  for (const Term& t : l.terms) {
    const auto* b = t.atom.as<Binary>();
    const bool product = b && b->op == BinaryOp::mul;
    if (!varies(t.atom))
      base.add(t.atom, t.coefficient);
    else if (same_expr(t.atom, lane))
      stride.constant += t.coefficient;
    else if (product && same_expr(b->b, lane) && !varies(b->a))
      stride.add(parts(b->a), t.coefficient);
    else if (product && same_expr(b->a, lane) && !varies(b->b))
      stride.add(parts(b->b), t.coefficient);
    else
      others.push_back(t);
  }
  const bool has_stride = !stride.is_constant() || stride.constant != 0;
  Expr sum;
  if (has_stride)
    sum = make::ramp(to_expr(base), to_expr(stride), lanes);
  else if (!base.is_constant() || base.constant != 0 || others[0].coefficient < 0)
    sum = make::broadcast(to_expr(base), lanes);
  for (const Term& t : others) {
    const bool minus = sum && t.coefficient < 0;
    const int64_t c = minus ? -t.coefficient : t.coefficient;
    Expr v = vectorize(t.atom, lanes);
    if (c != 1) v = make::binary(BinaryOp::mul, v, make::broadcast(Expr(c), lanes));
    sum = sum ? make::binary(minus ? BinaryOp::sub : BinaryOp::add, sum, v) : v;
  }
  return sum;
}

}  // namespace nestor::algebra
