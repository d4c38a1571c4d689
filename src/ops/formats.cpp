// ToFormat and FromFormat: bits of small floats from f32 and back, by arithmetic that is exact, so that every
// target and the interpreter give the same ones; and integers of few bits from i32.
#include "src/ops/formats.h"

#include <cmath>

#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

constexpr Type kReal{DType::f32, 1}, kBits{DType::i32, 1};
constexpr int kMantissa = 23, kBias = 127, kAll = 0xff;

Expr bits(int64_t v) {
  return make::imm(static_cast<double>(v), kBits);
}
Expr shift(BinaryOp op, const Expr& e, int by) {
  return make::binary(op, e, bits(by));
}
Expr both(const Expr& a, const Expr& b) {
  return make::binary(BinaryOp::bit_and, a, b);
}
Expr either(const Expr& a, const Expr& b) {
  return make::binary(BinaryOp::bit_or, a, b);
}
Expr real(double v) {
  return make::imm(v, kReal);
}

const Format& format(const OpContext& ctx) {
  const Format* f = format_of(ctx.get_int("format", 0));
  if (!f) ctx.fail("there is no such `format`");
  return *f;
}

// A power of two, rounded up, to the nearest (a half away from 1/2^127 up), or down.
Expr to_power(const OpContext& ctx, const Expr& x) {
  const std::string mode = ctx.get_string("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    ctx.fail("`round_mode` is \"" + mode + "\"", "up, down or nearest");
  const Expr all = make::bitcast(kBits, x), exponent = both(shift(BinaryOp::shr, all, kMantissa), bits(kAll));
  const Expr rest = both(all, bits((1 << kMantissa) - 1)), half = bits(1 << (kMantissa - 1));
  Expr more = bits(0);
  if (mode == "up") more = make::select(lt(bits(0), rest), bits(1), bits(0));
  if (mode == "nearest")
    more =
        make::select(lt(make::select(lt(bits(0), exponent), half - bits(1), half), rest), bits(1), bits(0));
  Expr code = exponent + more;
  if (ctx.get_int("saturate", 1) != 0) code = min(code, bits(kAll - 1));
  return make::select(eq(exponent, bits(kAll)), bits(kAll), code);
}

// Rounded to the nearest, ties to even. Where the result is below the normal numbers, its code counts steps.
Expr to_float(const OpContext& ctx, const Format& f, const Expr& x) {
  const Expr all = make::bitcast(kBits, x), size = both(all, bits(0x7fffffff));
  const int drop = kMantissa - f.mantissa;
  const Expr odd = both(shift(BinaryOp::shr, size, drop), bits(1));
  const Expr rounded = shift(BinaryOp::shr, size + bits((1 << (drop - 1)) - 1) + odd, drop);
  const Expr normal = rounded - bits((kBias - f.bias) << f.mantissa);
  const int least = kBias - f.bias + 1;  // the exponent of the least normal number, as f32 has it
  const Expr below = lt(size, bits(int64_t{least} << kMantissa));
  const Expr positive = make::select(lt(all, bits(0)), x * real(-1), x);
  const Expr magnitude = make::select(below, positive, real(0));
  const Expr steps = make::cast(
      kBits, make::call(Intrinsic::round, {magnitude * real(std::ldexp(1, f.bias - 1 + f.mantissa))}));
  Expr code = make::select(below, steps, normal);
  const bool saturate = ctx.get_int("saturate", 1) != 0 || f.nan < 0;
  const int beyond = saturate ? f.greatest : f.infinity >= 0 ? f.infinity : f.nan;
  const int sign = 1 << (f.bits - 1);
  code = make::select(lt(bits(f.greatest), code), bits(beyond), code);
  Expr with_sign = either(code, make::select(lt(all, bits(0)), bits(sign), bits(0)));
  if (f.one_zero)
    with_sign = make::select(logical_or(eq(code, bits(0)), eq(code, bits(sign))), code, with_sign);
  const Expr is_nan = lt(bits(int64_t{kAll} << kMantissa), size);
  return make::select(is_nan, bits(f.nan < 0 ? sign : f.nan), with_sign);
}

Expr to_integer(const Format& f, const Expr& x) {
  const Expr low = both(x, bits((1 << f.bits) - 1));
  if (f.stored == DType::u8) return low;
  const Expr sign = bits(1 << (f.bits - 1));
  return make::binary(BinaryOp::bit_xor, low, sign) - sign;
}

// 2^e of an exponent of `count` bits, up to 7: one factor for each bit, all exact.
Expr power(const Expr& e, int count) {
  Expr p = real(1);
  for (int i = 0; i < count; ++i)
    p = p * make::select(eq(both(e, bits(1 << i)), bits(0)), real(1), real(std::ldexp(1, 1 << i)));
  return p;
}

Expr from_float(const Format& f, const Expr& byte) {
  const Expr code = make::cast(kBits, byte);
  const int sign = 1 << (f.bits - 1);
  if (f.mantissa == 0) {
    const Expr scale =
        make::select(lt(code, bits(sign)), real(std::ldexp(1, -f.bias)), real(std::ldexp(1, sign - f.bias)));
    return make::select(eq(code, bits(f.nan)), real(NAN), power(code, f.bits - 1) * scale);
  }
  const Expr size = both(code, bits(sign - 1)), least = bits(1 << f.mantissa);
  const Expr exponent = shift(BinaryOp::shr, size, f.mantissa);
  const Expr digits = both(size, least - bits(1)) + make::select(lt(size, least), bits(0), least);
  const Expr below = make::select(lt(size, least), real(2), real(1));  // these have the least exponent, 1
  Expr x = make::cast(kReal, digits) * below * real(std::ldexp(1, -f.bias - f.mantissa)) *
           power(exponent, f.exponent);
  if (f.infinity >= 0) x = make::select(eq(size, bits(f.infinity)), real(INFINITY), x);
  x = make::select(lt(bits(sign - 1), code), x * real(-1), x);
  if (f.one_zero) return make::select(eq(code, bits(f.nan)), real(NAN), x);
  return f.nan < 0 ? x
                   : make::select(lt(bits(f.infinity >= 0 ? f.infinity : f.greatest), size), real(NAN), x);
}

}  // namespace

void register_formats(Rows& rows) {
  rows.push_back({.name = "ToFormat",
                  .domain = "nestor",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::elementwise,
                  .infer = [](const OpContext& ctx) -> std::vector<TensorType> {
                    const Format& f = format(ctx);
                    require_type(ctx, 0, {f.exponent > 0 ? DType::f32 : DType::i32});
                    return {{f.stored, ctx.input(0).shape}};
                  },
                  .build =
                      [](const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                        const Format& f = format(ctx);
                        b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
                          const Expr x = in[0].at(i);
                          return make::cast({f.stored, 1}, f.exponent == 0   ? to_integer(f, x)
                                                           : f.mantissa == 0 ? to_power(ctx, x)
                                                                             : to_float(ctx, f, x));
                        });
                      },
                  .note = "a number of few bits; made by the compiler, not by models"});
  rows.push_back(
      {.name = "FromFormat",
       .domain = "nestor",
       .since = 1,
       .min_inputs = 1,
       .max_inputs = 1,
       .pattern = Pattern::elementwise,
       .infer = [](const OpContext& ctx) -> std::vector<TensorType> {
         if (format(ctx).exponent == 0) ctx.fail("the format is one of integers");
         require_type(ctx, 0, {DType::u8});
         return {{DType::f32, ctx.input(0).shape}};
       },
       .build =
           [](const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
             const Format& f = format(ctx);
             b.compute(out[0], axes_of(out[0].shape),
                       [&](const Exprs& i) { return from_float(f, in[0].at(i)); });
           },
       .note = "the f32 that bits of a small float stand for; made by the compiler, not by models"});
}

}  // namespace nestor::ops
