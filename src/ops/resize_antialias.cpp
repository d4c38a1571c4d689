// Resize that shrinks with `antialias`: the filter is stretched by 1 / scale, so that an element weighs
//
//   w(scale * (its place - x)) / sum of these
//
// Weights are the same in every row: a table of [elements of the result, taps], computed by blocks of its
// own.
#include <cmath>

#include "src/ops/resize.h"

namespace nestor::ops {

namespace {

// How much an element at distance d weighs, in units of the filter.
Expr linear_weight(const Expr& d) {
  return max(make::imm(1, d.type()) - d, make::imm(0, d.type()));
}
// Keys' cubic of parameter a.
Expr cubic_weight(const Expr& d, double a) {
  const auto real = [&](double v) { return make::imm(v, d.type()); };
  const Expr near = (real(a + 2) * d - real(a + 3)) * d * d + real(1),
             far = ((real(a) * d - real(5 * a)) * d + real(8 * a)) * d - real(4 * a);
  return make::select(le(d, real(1)), near, make::select(lt(d, real(2)), far, real(0)));
}

}  // namespace

void build_antialiased(const OpContext& ctx, FuncBuilder& b, const Line& l, bool is_cubic,
                       const BuildTensor& from, const BuildTensor& to) {
  const Type t{from.dtype(), 1};
  if (!l.r.known())
    ctx.fail("with `antialias` the ratio of " + to_string(l.out) + " and " + to_string(l.in) +
                 ", the sizes of axis " + std::to_string(l.axis) + ", must be known at compile time",
             "give `scales` as constants, or values for the dimensions: --dim NAME=...");
  const double reach = (is_cubic ? 2 : 1) / l.scale;
  const auto first = static_cast<int64_t>(std::floor(-reach)) + 1;  // behind the element before x
  const int64_t taps = 2 - 2 * first;
  const bool exclude = ctx.get_int("exclude_outside", 0) != 0;
  const auto place = [&](const Expr& i, const Expr& k) {
    return l.numerator(i) / l.r.expr() + Expr(first) + k;
  };
  const std::vector<Axis> weights = {{"i", l.out}, {"k", taps}};
  const BuildTensor weight = b.temp("Weight", {t.dtype, {l.out, taps}});
  b.compute(weight, weights, [&](const Exprs& i) {
    const Expr d = make::cast(t, i[1] + Expr(first)) - fraction(l, l.numerator(i[0]), t);
    const Expr units = make::call(Intrinsic::abs, {d * make::imm(l.scale, t)});
    const Expr w =
        is_cubic ? cubic_weight(units, ctx.get_float("cubic_coeff_a", -0.75)) : linear_weight(units);
    if (!exclude) return w;
    const Expr at = place(i[0], i[1]);
    return make::select(logical_and(le(0, at), lt(at, l.in.expr())), w, make::imm(0, t));
  });
  const BuildTensor total = b.temp("Total", {t.dtype, {l.out}});
  b.reduce(total, {{"i", l.out}}, {{"k", taps}}, ReduceOp::add,
           [&](const Exprs& i, const Exprs& k) { return weight(i[0], k[0]); });
  const BuildTensor share = b.temp("Share", {t.dtype, {l.out, taps}});
  b.compute(share, weights, [&](const Exprs& i) { return weight(i[0], i[1]) / total(i[0]); });
  b.reduce(to, axes_of(to.shape), {{"k", taps}}, ReduceOp::add, [&](const Exprs& i, const Exprs& k) {
    Exprs at = i;
    at[l.axis] = l.clamped(place(i[l.axis], k[0]));
    return from.at(at) * share(i[l.axis], k[0]);
  });
}

}  // namespace nestor::ops
