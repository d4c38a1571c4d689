// exp, expm1, log, log1p, tanh, erf, sigmoid and pow of f32 (sin and cos: sine_expansion.cpp) by range
// reduction, a polynomial, and the exponent put back by integer operations.
//
// Largest errors in units of the last place, with AVX-512 and without, denormal arguments and results
// included (a test measures them over floats of every exponent, NESTOR_DENSE=1 over all):
//
//   exp 1.14 (AVX2; else 1.05)   log 0.94   tanh 2.60   sigmoid 3.10   erf 2.98   pow 0.52
//   expm1 1.6   log1p 1.5   exp_nonpositive 1.75 + |x|/21
//
// There are three exponentials: exp itself; exp_nonpositive, softmax's, where a number weighs the less beside
// the row's largest the larger its error is, and 12 to 20 % fewer steps count; and exp(x) - 1 of moderate x,
// which takes no range checks and is accurate near 0, for tanh, a quotient of it. erf is a quotient of
// polynomials. Where a register holds a table of 16 numbers (AVX-512), erf takes its coefficients from there
// and exp its powers of 2^(1/16), or out of two registers of 2^(1/32), and both need half as much; of 8
// (AVX2), exp its powers of 2^(1/8). What binds such chains without AVX-512 is how many of their steps a core
// keeps in flight: the polynomials of exp, tanh and erf go by halves, and erf was 1 - exp(x Q(x)) before
// (AVX2, Zen 3: GELU 327 us by that, 394 one step after the other, 192 now).
//
// Infinities, zeros and NaN come out as in C99's Annex F.
//
// The polynomials were fitted to the least largest relative error (Lawson's iteration on Chebyshev nodes),
// coefficients rounded to f32 one after the other, lowest first, the rest refitted.
#include "src/passes/math_expansion.h"

#include <bit>
#include <cmath>
#include <limits>

#include "nestor/error.h"

namespace nestor::passes {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLog2e = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;
constexpr int64_t kTwoThirds = 0x3f2aaaab;  // the bits of 2/3

}  // namespace

Expr Expansion::exp(const Expr& x) {
  return exp(x, {});
}

Expr Expansion::exp_nonpositive(const Expr& x) {
  return exp(x, {.nonpositive = true, .rough = true});
}

Expr Expansion::exp(const Expr& x, ExpOptions options) {
  if (table_ == 16) return exp_by_table(name("x", x), options);
  const Expr xc = name("x", max(f(-104.0), options.nonpositive ? x : min(f(89.0), x)));
  return table_ == 8 ? exp_by_small_table(xc, options) : exp_in_range(xc, options);
}

// 2^n (1 + p) - 1 as twice 2^(n-1) p + (2^(n-1) - 1/2), where n may be 128. The sum that rounds to n leaves
// n + 126 in its low bits: shifted, they are 2^(n-1).
Expr Expansion::expm1(const Expr& x0) {
  constexpr double magic = 0x1.8p23 + 126;
  const Expr given = name("x", x0), x = name("xc", max(f(-30), min(f(89), given)));
  const auto [shifted, n, r] = round_off(x, magic, false);
  const Expr power = name("w", to_f32(bit(BinaryOp::shl, make::bitcast(i32_, shifted), i(23))));
  const Expr r2 = name("r2", r * r);
  const Expr q = poly_by_halves(r, r2, {0.5, 0x1.55549p-3, 0x1.5554bep-5, 0x1.123afep-7, 0x1.6d7c9ep-10});
  const Expr half = fma(power, fma(r2, q, r), power - f(0.5));
  return make::select(lt(abs(given), f(0x1p-25)), given, half * f(2));
}

Expr Expansion::log(const Expr& x0) {
  const Expr x = name("x", x0);
  const auto [m1, exponent] = split_exponent(x);
  const Expr regular = log_of(name("m", to_f32(m1) - f(1)), exponent);
  const Expr special = make::select(eq(x, f(0)), f(-kInf), make::select(lt(x, f(0)), f(NAN), x));
  return make::select(logical_and(gt(x, f(0)), lt(x, f(kInf))), regular, special);
}

// 1 + x rounded says the exponent e alone; 1 + m is (1 + x) / 2^e, of whose terms x / 2^e is exact by taking
// e off x's exponent, and 1 / 2^e of the largest e is a quarter of what is no denormal (N. Juffa's log1pf).
Expr Expansion::log1p(const Expr& x0) {
  const Expr x = name("x", x0);
  const Expr e = name("e", bit(BinaryOp::shr, make::bitcast(i32_, x + f(1)) - i(kTwoThirds), i(23)));
  const Expr shift = name("s", bit(BinaryOp::shl, e, i(23)));
  const Expr scaled = to_f32(make::bitcast(i32_, x) - shift);
  const Expr one = fma(to_f32(i(std::bit_cast<int32_t>(4.0f)) - shift), f(0.25), f(-1));
  const Expr regular = log_of(name("m", scaled + one), e);
  const Expr special = make::select(eq(x, f(-1)), f(-kInf), make::select(lt(x, f(-1)), f(NAN), x));
  const Expr is_regular =
      logical_and(logical_and(gt(x, f(-1)), lt(x, f(kInf))), ne(x, f(0)));  // -0 is itself
  return make::select(is_regular, regular, special);
}

// log((1 + m) 2^exponent) of m in [-1/3, 1/3).
Expr Expansion::log_of(const Expr& m, const Expr& exponent) const {
  const Expr p = poly(m, {0x1.5555060p-2, -0x1.fffefap-3, 0x1.99d050p-3, -0x1.559c66p-3, 0x1.1ed562p-3,
                          -0x1.f332b8p-4, 0x1.1e6ccap-3, -0x1.07c48ap-3});
  return fma(make::cast(f32_, exponent), f(kLn2), fma(fma(p, m, f(-0.5)), m * m, m));
}

Expr Expansion::tanh(const Expr& x0) {
  const Expr x = name("x", x0), ax = name("ax", min(f(10), abs(x)));  // beyond 10 the result is 1
  const Expr e = name("e", exp_minus_1(name("y", ax * f(-2))));
  return with_sign_of(e / (e + f(2)), x);
}

Expr Expansion::sigmoid(const Expr& x0) {
  const Expr x = name("x", x0);
  const Expr t = name("t", exp(make::unary(UnaryOp::neg, abs(x)), {.nonpositive = true}));
  return make::select(lt(x, f(0)), t, f(1)) / (f(1) + t);
}

Expr Expansion::erf(const Expr& x0) {
  if (table_ == 16) return erf_by_tables(x0);
  // x (A + R(x^2) / Q(x^2)), where A is what is left of erf(x) / x at the end of the range: what the
  // quotient loses by rounding weighs less than it does.
  const Expr x = name("x", max(f(-3.925), min(f(3.925), x0)));  // from there on it is 1
  const Expr x2 = name("u", x * x), x4 = name("u2", x2 * x2);
  const Expr r = poly_by_halves(
      x2, x4,
      {0x1.5c66fcp-1, 0x1.8bd84ep-5, 0x1.2e00c0p-6, -0x1.8db212p-15, -0x1.0a7b46p-17, -0x1.8fa4f6p-18});
  const Expr q = poly_by_halves(
      x2, x4, {0x1.8ec6a8p-1, 0x1.8ffcc6p-2, 0x1.6b31eap-4, 0x1.7ca06cp-7, 0x1.d7d1c2p-11, 0x1.f19854p-16});
  return fma(x, r / q, x * f(0x1.04d014p-2));
}

// 2^(y log2|x|) in f64, which leaves no error worth naming; the rest is C99's list of special cases.
Expr Expansion::pow(const Expr& x0, const Expr& y0) {
  const Expr x = name("x", x0), y = name("y", y0), ax = name("ax", abs(x));
  const Expr l = name("l", log2_in_f64(ax));
  // The clamp keeps NaN; 2^±160 is beyond f32 on both sides.
  const Expr t = name("t", max(d(-160), min(d(160), make::cast(f64_, y) * l)));
  const Expr magnitude = name("p", make::cast(f32_, exp2_in_f64(t)));
  const Expr half = y * f(0.5);
  const Expr is_integer = eq(floor(y), y), is_odd = logical_and(is_integer, ne(floor(half), half));
  const Expr negative = lt(make::bitcast(i32_, x), i(0));
  const Expr is_signed =
      make::select(logical_and(negative, is_odd), make::unary(UnaryOp::neg, magnitude), magnitude);
  const Expr undefined = logical_and(logical_and(lt(x, f(0)), gt(x, f(-kInf))), logical_not(is_integer));
  const Expr one =
      logical_or(logical_or(eq(x, f(1)), eq(y, f(0))), logical_and(eq(x, f(-1)), eq(abs(y), f(kInf))));
  return make::select(one, f(1), make::select(undefined, f(NAN), is_signed));
}

// c[0] + c[1] x + c[2] x^2 ...
Expr Expansion::poly(const Expr& x, const std::vector<double>& c) const {
  Expr sum = make::imm(c.back(), x.type());
  for (size_t k = c.size() - 1; k-- > 0;) sum = fma(sum, x, make::imm(c[k], x.type()));
  return sum;
}

Expr Expansion::with_sign_of(Expr magnitude, const Expr& x) const {
  constexpr int64_t sign = std::numeric_limits<int32_t>::min();
  const Expr kept = bit(BinaryOp::bit_and, make::bitcast(i32_, std::move(magnitude)), i(~sign));
  return to_f32(bit(BinaryOp::bit_or, kept, bit(BinaryOp::bit_and, make::bitcast(i32_, x), i(sign))));
}

// c[0] + c[1] x + c[2] x^2 ... of 5 or 6 coefficients, by pairs whose sums don't wait for each other
// (Estrin's scheme): 3 steps one after the other instead of 4 or 5. x2 is x^2.
Expr Expansion::poly_by_halves(const Expr& x, const Expr& x2, const std::vector<double>& c) const {
  std::vector<Expr> sums;
  for (const double value : c) sums.push_back(f(value));
  if (sums.size() == 5) {
    sums[3] = fma(sums[4], x, sums[3]);
    sums.pop_back();
  }
  std::vector<Expr> pairs;
  for (size_t k = 0; k < sums.size(); k += 2) pairs.push_back(fma(sums[k + 1], x, sums[k]));
  NESTOR_CHECK(pairs.size() == 2 || pairs.size() == 3) << c.size() << " coefficients";
  if (pairs.size() == 3) pairs[1] = fma(pairs[2], x2, pairs[1]);
  return fma(pairs[1], x2, pairs[0]);
}

// Around each multiple of 1/4 a polynomial of degree 5, its coefficients out of tables that fit a register.
// The sum that rounds to the multiple numbers it in its lowest bits.
Expr Expansion::erf_by_tables(const Expr& x0) {
  static const std::vector<double> kTables[] = {
      {0, 0x1.1af54ep-2, 0x1.0a7ef6p-1, 0x1.6c1c98p-1, 0x1.af767ap-1, 0x1.d8865ep-1, 0x1.eea556p-1,
       0x1.f92d08p-1, 0x1.fd9ae2p-1, 0x1.ff4048p-1, 0x1.ffcaa8p-1, 0x1.fff2d0p-1, 0x1.fffd1ap-1,
       0x1.ffff70p-1, 0x1.ffffe8p-1, 0x1.fffffcp-1},
      {0x1.20dd74p+0, 0x1.0f5d18p+0, 0x1.c1efccp-1, 0x1.492e44p-1, 0x1.a911f0p-2, 0x1.e46530p-3,
       0x1.e72372p-4, 0x1.b05530p-5, 0x1.529ba0p-6, 0x1.d4143cp-8, 0x1.1d8316p-9, 0x1.3360cep-11,
       0x1.2408eap-13, 0x1.e9b5eap-16, 0x1.6a5972p-18, 0x1.f0d66ep-21},
      {0, -0x1.0f5be6p-2, -0x1.c1ef08p-2, -0x1.edc702p-2, -0x1.a9104ep-2, -0x1.2ec172p-2, -0x1.6d6024p-3,
       -0x1.7a5394p-4, -0x1.52b322p-5, -0x1.077154p-6, -0x1.63ec6cp-8, -0x1.a7d236p-10, -0x1.a9dafep-12,
       -0x1.a5998ep-14, -0x1.148940p-15, 0x1.737eeap-21},
      {-0x1.811e6cp-2, -0x1.3c9e4ap-2, -0x1.2bfde8p-3, 0x1.b6aa44p-6, 0x1.1b6242p-3, 0x1.571c0cp-3,
       0x1.1c2a20p-3, 0x1.714954p-4, 0x1.8b0ae8p-5, 0x1.63ef4ep-6, 0x1.119d74p-7, 0x1.69cc3ap-9,
       0x1.9db0ccp-11, 0x1.9a98cep-13, 0x1.62bcfap-15, 0x1.69d606p-17},
      {0, 0x1.023cc4p-3, 0x1.74fdf4p-3, 0x1.348b02p-3, 0x1.1a0d9ep-4, -0x1.5afb70p-8, -0x1.65647ep-5,
       -0x1.846ec8p-5, -0x1.144a80p-5, -0x1.3001acp-6, -0x1.3a982cp-7, -0x1.892b62p-9, -0x1.d60d9ep-10,
       0x1.1b560ap-14, 0x1.af47fap-11, -0x1.def3fep-13},
      {0x1.c3b5c0p-4, 0x1.4c48f0p-4, 0x1.10f676p-7, -0x1.aaabb4p-5, -0x1.1ae80cp-4, -0x1.810156p-5,
       -0x1.e95bc8p-7, 0x1.aa3dbap-8, 0x1.ab1bbep-7, 0x1.5ce9d6p-7, 0x1.918a48p-8, 0x1.6b3f0cp-9,
       0x1.0cd8d6p-10, 0x1.4d39acp-12, 0x1.5e25f2p-14, 0x1.3a9c16p-16}};
  constexpr double magic = 0x1.8p21;  // a unit in its last place is 1/4
  const Expr x = name("x", x0), ax = name("ax", min(f(0x1.effffep+1), abs(x)));  // from there on it is 1
  const Expr s = name("s", ax + f(magic)), d = name("d", ax - (s - f(magic)));
  Expr sum;
  for (size_t k = std::size(kTables); k-- > 0;) {
    std::vector<Expr> args = {s};
    for (const double value : kTables[k]) args.push_back(f(value));
    const Expr c = make::call(Intrinsic::lookup, std::move(args));
    sum = sum ? fma(sum, d, c) : c;
  }
  return with_sign_of(sum, x);
}

// exp(x) - 1 of x in [-40, 0] or NaN: 2^n (1 + p) - 1. The sum that rounds to n leaves n + 127 in its low
// bits: shifted, they are 2^n.
Expr Expansion::exp_minus_1(const Expr& x) {
  constexpr double magic = 0x1.8p23 + 127;
  const Expr shifted = name("s", fma(x, f(kLog2e), f(magic)));
  const Expr r = name("r", fma(shifted - f(magic), f(-kLn2), x));
  const Expr power = name("w", to_f32(bit(BinaryOp::shl, make::bitcast(i32_, shifted), i(23))));
  const Expr r2 = name("r2", r * r);
  const Expr q = poly_by_halves(r, r2, {0.5, 0x1.5554b6p-3, 0x1.5555b6p-5, 0x1.12243cp-7, 0x1.6c5a88p-10});
  return fma(power, fma(r2, q, r), power - f(1));
}

Expansion::Rounded Expansion::round_off(const Expr& x, double magic, bool rough) {
  const Expr s = name("s", fma(x, f(kLog2e), f(magic)));
  const Expr n = name("n", s - f(magic));
  const double ln2_low = kLn2 - static_cast<double>(static_cast<float>(kLn2));
  const Expr r = fma(n, f(-kLn2), x);
  return {s, n, name("r", rough ? r : fma(n, f(-ln2_low), r))};
}

// exp of x in [-104, 89] or NaN: x = n ln2 + r, exp(r) = 1 + r + r^2 q(r), times 2^n in two steps, so that
// neither denormal results nor those near the largest lose a bit. Adding 1.5*2^23 rounds to an integer, and
// leaves it in the low bits of the sum; with 254 more, the exponents of 2^(n/2), rounded down and up, are
// half of these bits, and the rest of them.
Expr Expansion::exp_in_range(const Expr& x, ExpOptions options) {
  constexpr double magic = 0x1.8p23 + 254;
  const auto [shifted, n, r] = round_off(x, magic, options.rough);
  const Expr r2 = name("r2", r * r);
  const Expr q = poly_by_halves(r, r2, {0.5, 0x1.55549p-3, 0x1.5554bep-5, 0x1.123afep-7, 0x1.6d7c9ep-10});
  const Expr bits = name("b", make::bitcast(i32_, shifted)), half = name("h", bit(BinaryOp::shr, bits, i(1)));
  const auto power = [&](const Expr& e) { return to_f32(bit(BinaryOp::shl, e, i(23))); };
  const Expr down = name("w", power(half));
  return fma(fma(r2, q, r), down, down) * power(bits - half);
}

// exp of x in [-104, 89] or NaN: x = n ln2 + r with n a multiple of 1/8, 2^(n - floor(n)) one of 8 numbers
// and r so small that 1 + r + r^2 (a + b r) is enough. 2^floor(n) goes into the exponent but for 2^64 or
// 2^-64, by which the result is multiplied: neither denormal results nor those near the largest lose a bit.
// The sum that rounds to n leaves it in its low bits; shifted, they add floor(n) to the exponent, and to the
// fraction the number of the power looked up, which the table holds back.
Expr Expansion::exp_by_small_table(const Expr& x, ExpOptions options) {
  constexpr double magic = 0x1.8p20;  // a unit in its last place is 1/8
  const auto [s, n, r] = round_off(x, magic, options.rough);
  const Expr floor_n = name("h", bit(BinaryOp::shl, make::bitcast(i32_, s), i(20)));
  const auto looked_up = [&](int exponent) {
    std::vector<Expr> args = {s};
    for (int32_t k = 0; k < 8; ++k) {
      const auto power = static_cast<float>(std::exp2(exponent + k / 8.0));
      args.push_back(f(std::bit_cast<float>(std::bit_cast<int32_t>(power) - (k << 20))));
    }
    return make::bitcast(i32_, make::call(Intrinsic::lookup, std::move(args)));
  };
  Expr last = f(0x1p-64), scaled;
  if (options.nonpositive) {
    scaled = looked_up(64);
  } else {  // the last factor's exponent is taken off 127 too many
    last = name("l", make::select(lt(floor_n, i(0)), last, f(0x1p64)));
    scaled = looked_up(127) - make::bitcast(i32_, last);
  }
  const Expr power = name("w", to_f32(scaled + floor_n));
  const Expr small = fma(r * r, fma(r, f(0x1.555656p-3), f(0x1.000874p-1)), r);
  return fma(power, small, power) * last;
}

// x = n ln2 + r with n a multiple of 1/16: 2^(n - floor(n)) is one of 16 numbers, floor(n) the exponent,
// and r so small that 1 + r + r^2 (a + b r) is enough; of 1/32 roughly, and 1 + r (a + b r). Where x is so
// large that the sum doesn't round to such an n, r is anything and left out: a power of n's size gives 0 or
// infinity. The comparison that decides it runs beside the products, where min and max would take turns with
// them: of 5.4 cycles a vector 0.6 (Zen 5).
Expr Expansion::exp_by_table(const Expr& x, ExpOptions options) {
  const int parts = options.rough ? 32 : 16;
  const auto [s, n, r] = round_off(x, 0x1.8p23 / parts, options.rough);
  std::vector<Expr> args = {s};
  for (int k = 0; k < parts; ++k) args.push_back(f(std::exp2(k / static_cast<double>(parts))));
  const Expr power = name("w", make::call(Intrinsic::lookup, std::move(args)));
  const Expr small =
      r * (options.rough ? poly(r, {0x1.0000f6p+0, 0.5}) : poly(r, {1.0, 0x1.000222p-1, 0x1.5556b6p-3}));
  const double bound = 0x1p21 / parts;
  const Expr rounds = options.nonpositive ? lt(f(-bound), x) : lt(abs(x), f(bound));
  return make::call(Intrinsic::scalef, {make::select(rounds, fma(power, small, power), power), n});
}

// The bits of m in [2/3, 4/3) and the integer e with x = m 2^e, for positive finite x, denormal or not.
std::pair<Expr, Expr> Expansion::split_exponent(const Expr& x) {
  const Expr denormal = lt(x, f(0x1p-126));
  const Expr bits = name("b", make::bitcast(i32_, make::select(denormal, x * f(0x1p23), x)));
  const Expr e = name("e", bit(BinaryOp::shr, bits - i(kTwoThirds), i(23)));
  return {bits - bit(BinaryOp::shl, e, i(23)), e + make::select(denormal, i(-23), i(0))};
}

// log2 of x >= 0 with relative error 1e-11: log(m) = 2 artanh((m-1)/(m+1)).
Expr Expansion::log2_in_f64(const Expr& x) {
  const auto [bits, exponent] = split_exponent(x);
  const Expr m = name("m", make::cast(f64_, to_f32(bits)));
  const Expr q = name("q", (m - d(1)) / (m + d(1)));
  const Expr s = name("s", q * q);
  const Expr series = poly(s, {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13});
  const Expr finite = fma(q * d(2 * kLog2e), series, make::cast(f64_, exponent));
  const Expr unusual =
      make::select(eq(x, f(0)), d(-kInf), make::cast(f64_, x));  // infinity and NaN are their own
  return make::select(logical_and(gt(x, f(0)), lt(x, f(kInf))), finite, unusual);
}

Expr Expansion::exp2_in_f64(const Expr& t) {
  constexpr double magic = 0x1.8p52;
  const Expr shifted = name("z", t + d(magic));
  const Expr r = name("r", (t - (shifted - d(magic))) * d(kLn2));
  std::vector<double> taylor = {1};
  for (int k = 1; k <= 9; ++k) taylor.push_back(taylor.back() / k);
  const Expr biased = make::bitcast(i64_, shifted) - l(0x4338000000000000) + l(1023);
  return poly(r, taylor) * make::bitcast(f64_, bit(BinaryOp::shl, biased, l(52)));
}

}  // namespace nestor::passes
