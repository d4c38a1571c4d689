// Each keeps its digits near 0, and doesn't overflow before its result does. Odd functions are computed of
// |x|. Where an argument is beyond the domain the result is NaN.
#include "src/ops/inverse_functions.h"

#include <cmath>
#include <numbers>

namespace nestor::ops {

namespace {

Expr call(Intrinsic f, const Expr& x) {
  return make::call(f, {x});
}
Expr imm(const Expr& like, double value) {
  return make::imm(value, like.type());
}

// Beyond it 1 is nothing beside x^2.
double large(const Expr& x) {
  return x.dtype() == DType::f64 ? 1e10 : 1e5;
}

Expr with_sign(const Expr& x, const Expr& of_absolute) {
  return make::select(lt(x, imm(x, 0)), imm(x, 0) - of_absolute, of_absolute);
}

// atan of y from 0 to 1: twice that of half the angle, whose tangent is at most 0.414, by its series.
Expr atan_up_to_one(const Expr& y) {
  const Expr z = y / (imm(y, 1) + call(Intrinsic::sqrt, imm(y, 1) + y * y)), square = z * z;
  const int terms = y.dtype() == DType::f64 ? 20 : 9;
  Expr sum = imm(y, (terms % 2 != 0 ? -1.0 : 1.0) / (2 * terms + 1));
  for (int k = terms - 1; k > 0; --k) sum = imm(y, (k % 2 != 0 ? -1.0 : 1.0) / (2 * k + 1)) + square * sum;
  return imm(y, 2) * (z + z * (square * sum));
}

}  // namespace

Expr tan_of(const Expr& x) {
  return call(Intrinsic::sin, x) / call(Intrinsic::cos, x);
}

Expr atan_of(const Expr& x) {
  const Expr a = call(Intrinsic::abs, x), beyond = gt(a, imm(x, 1));
  const Expr near = atan_up_to_one(make::select(beyond, imm(x, 1) / a, a));
  return with_sign(x, make::select(beyond, imm(x, std::numbers::pi / 2) - near, near));
}

// The tangent of half the angle is x / (1 + sqrt(1 - x^2)).
Expr asin_of(const Expr& x) {
  const Expr a = call(Intrinsic::abs, x);
  const Expr cosine = call(Intrinsic::sqrt, (imm(x, 1) - a) * (imm(x, 1) + a));
  return with_sign(x, imm(x, 2) * atan_up_to_one(a / (imm(x, 1) + cosine)));
}

// pi/2 - asin(x), but near 1 by the tangent of half the angle.
Expr acos_of(const Expr& x) {
  const Expr half = call(Intrinsic::sqrt, (imm(x, 1) - x) / (imm(x, 1) + x));
  const Expr near = imm(x, 2) * atan_up_to_one(min(imm(x, 1), half));
  return make::select(lt(x, imm(x, 0)), imm(x, std::numbers::pi / 2) - asin_of(x), near);
}

Expr sinh_of(const Expr& x) {
  const Expr a = call(Intrinsic::abs, x), t = call(Intrinsic::expm1, min(imm(x, 20), a));
  const Expr half = call(Intrinsic::exp, imm(x, 0.5) * a);
  return with_sign(
      x, make::select(gt(a, imm(x, 20)), imm(x, 0.5) * half * half, imm(x, 0.5) * (t + t / (t + imm(x, 1)))));
}

Expr cosh_of(const Expr& x) {
  const Expr half = call(Intrinsic::exp, imm(x, 0.5) * call(Intrinsic::abs, x));
  return imm(x, 0.5) * half * half + imm(x, 0.5) / half / half;
}

Expr asinh_of(const Expr& x) {
  const Expr a = call(Intrinsic::abs, x), b = min(imm(x, large(x)), a), one = imm(x, 1);
  const Expr near = call(Intrinsic::log1p, b + b * b / (one + call(Intrinsic::sqrt, b * b + one)));
  const Expr far = call(Intrinsic::log, a) + imm(x, std::numbers::ln2);
  return with_sign(x, make::select(gt(a, imm(x, large(x))), far, near));
}

Expr acosh_of(const Expr& x) {
  const Expr t = min(imm(x, large(x)), x) - imm(x, 1);
  const Expr near = call(Intrinsic::log1p, t + call(Intrinsic::sqrt, t * (t + imm(x, 2))));
  const Expr far = call(Intrinsic::log, x) + imm(x, std::numbers::ln2);
  return make::select(gt(x, imm(x, large(x))), far, near);
}

Expr atanh_of(const Expr& x) {
  const Expr a = call(Intrinsic::abs, x);
  return with_sign(x, imm(x, 0.5) * call(Intrinsic::log1p, imm(x, 2) * a / (imm(x, 1) - a)));
}

}  // namespace nestor::ops
