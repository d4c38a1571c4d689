#include "src/ops/cubic.h"

namespace nestor::ops {

std::array<Expr, 4> cubic_weights(const Expr& fraction, double a) {
  const auto real = [&](double v) { return make::imm(v, fraction.type()); };
  // Of an element at distance d, below 1, and from 1 to 2.
  const auto near = [&](const Expr& d) { return (real(a + 2) * d - real(a + 3)) * d * d + real(1); };
  const auto far = [&](const Expr& d) {
    return ((real(a) * d - real(5 * a)) * d + real(8 * a)) * d - real(4 * a);
  };
  const Expr g = real(1) - fraction;
  return {far(fraction + real(1)), near(fraction), near(g), far(g + real(1))};
}

}  // namespace nestor::ops
