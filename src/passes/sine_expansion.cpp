// sin and cos of f32: x in quarter turns is a whole number, which says whether the rest's sine or cosine is
// wanted, and of which sign, and a rest in [-1/2, 1/2], of which both are polynomials.
//
// The rest is taken in f64. 2/pi in three pieces, the first two of which have so few bits that their products
// with x are exact, leaves an error of 2^-53 of a quarter turn below 2^50; no float but 0 is nearer than
// 2^-30 to a whole number of them. A larger x is a whole number of some 2^s, and 2^s 2/pi stands for 2/pi,
// less a multiple of 4 quarter turns. So every float has its sine, not only those of a few turns.
//
// Largest errors in units of the last place: sin 1.54, cos 1.55 (measured over all floats, as in
// math_expansion.cpp, where it is said how the polynomials were fitted).
#include "src/passes/math_expansion.h"

namespace nestor::passes {

namespace {

// 2^s 2/pi less a multiple of 4, for x from `from` on.
struct Ratio {
  double from, scale;  // 2^-s
  double high, middle, low;
};
constexpr Ratio kRatios[] = {{0, 1, 0x1.45f307p-1, -0x1.1b1bbecp-28, 0x1.29fc2757d1f53p-56},
                             {0x1p50, 0x1p-26, 0x1.b939104p+0, 0x1.4a7f09cp-28, 0x1.5f47d4d377037p-56},
                             {0x1p76, 0x1p-52, 0x1.529fc28p+0, -0x1.505c158p-29, -0x1.6447e493ad4cep-57},
                             {0x1p102, 0x1p-78, 0x1.d5f47d4p+0, 0x1.a6ee07p-29, -0x1.275a99b0ef1bfp-56}};
constexpr double kHalfPi = 1.5707963267948966;

}  // namespace

Expr Expansion::sin(const Expr& x0) {
  const Expr x = name("x", x0);
  return make::select(eq(x, f(0)), x, sine(quarter_turns(x), 0));  // of -0 as well
}

Expr Expansion::cos(const Expr& x) {
  return sine(quarter_turns(name("x", x)), 1);
}

Expansion::Turn Expansion::quarter_turns(const Expr& x) {
  const Expr size = name("ax", abs(x));
  const auto of_size = [&](double Ratio::*member) {
    Expr e = d(kRatios[0].*member);
    for (size_t k = 1; k < std::size(kRatios); ++k)
      e = make::select(le(f(kRatios[k].from), size), d(kRatios[k].*member), e);
    return e;
  };
  const auto less_whole_turns = [&](const Expr& quarters) {
    return fma(make::call(Intrinsic::round, {quarters * d(0.25)}), d(-4), quarters);
  };
  const Expr y = name("y", make::cast(f64_, x) * of_size(&Ratio::scale));
  const Expr high = name("h", less_whole_turns(name("p", y * of_size(&Ratio::high))));
  const Expr middle = name("m", less_whole_turns(name("q", y * of_size(&Ratio::middle))));
  const Expr whole = name("n", make::call(Intrinsic::round, {high + middle}));
  return {name("r", fma(y, of_size(&Ratio::low), high - whole + middle)), whole};
}

// The sine of so many quarters of a turn more.
Expr Expansion::sine(const Turn& t, int quarters) {
  const Expr r = name("r", make::cast(f32_, t.rest * d(kHalfPi))), r2 = name("r2", r * r);
  const Expr sine = fma(poly(r2, {-0x1.555546p-3, 0x1.110778p-7, -0x1.9954p-13}), r * r2, r);
  const Expr cosine =
      fma(fma(poly(r2, {0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e80cp-16}), r2, f(-0.5)), r2, f(1));
  // The sum that rounds to the number of quarters leaves it in its lowest bits.
  const Expr sum = make::cast(f32_, t.whole) + f(0x1.8p23 + quarters);
  const Expr n = name("k", make::bitcast(i32_, sum));
  const Expr odd = ne(bit(BinaryOp::bit_and, n, i(1)), i(0));
  const Expr sign = bit(BinaryOp::shl, bit(BinaryOp::bit_and, n, i(2)), i(30));
  return to_f32(bit(BinaryOp::bit_xor, make::bitcast(i32_, make::select(odd, cosine, sine)), sign));
}

}  // namespace nestor::passes
