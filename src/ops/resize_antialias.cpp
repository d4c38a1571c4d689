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
  // Of open sizes the scale is 1 where the axis grows.
  const int64_t support = is_cubic ? 2 : 1;
  const Dim some = max(l.out, 1), longest = max(l.in, some);
  const Dim reach = l.open ? ceil_div(longest * support, some)
                           : Dim(-static_cast<int64_t>(std::floor(static_cast<double>(-support) / l.scale)));
  const Dim first = 1 - reach;  // behind the element before x
  const Dim taps = reach * 2;
  const Expr scale =
      l.open ? make::cast(t, some.expr()) / make::cast(t, longest.expr()) : make::imm(l.scale, t);
  const bool exclude = ctx.get_int("exclude_outside", 0) != 0;
  const auto place = [&](const Expr& i, const Expr& k) {
    return l.numerator(i) / l.r.expr() + first.expr() + k;
  };
  const std::vector<Axis> weights = {{"i", l.out}, {"k", taps}};
  const BuildTensor weight = b.temp("Weight", {t.dtype, {l.out, taps}});
  b.compute(weight, weights, [&](const Exprs& i) {
    const Expr d = make::cast(t, i[1] + first.expr()) - fraction(l, l.numerator(i[0]), t);
    const Expr units = make::call(Intrinsic::abs, {d * scale});
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
