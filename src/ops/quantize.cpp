// Between numbers and small integers: QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. An integer
// q with zero point z and scale s stands for s * (q - z). There is one scale, one per place of an axis, or
// (blocked) one per `block_size` places of it.
//
// To an integer: round(x / s) + z, ties to even, cut off at the type's bounds; NaN becomes z.
#include <algorithm>

#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {
constexpr Type kReal{DType::f32, 1}, kWide{DType::i32, 1};
}

// Cut off before it is rounded: the bounds are integers, so that comes to the same, and what is converted
// fits.
Expr quantized(const Expr& x, const Expr& zero, DType to) {
  const int values = 1 << (8 * bytes_of(to)), lowest = is_unsigned(to) ? 0 : -values / 2;
  const auto bound = [&](int value) {
    if (const auto known = as_int(zero)) return make::imm(value - static_cast<int>(*known), kReal);
    return make::imm(value, kReal) - make::cast(kReal, zero);
  };
  const Expr steps = make::call(Intrinsic::round, {max(min(x, bound(lowest + values - 1)), bound(lowest))});
  const Expr whole = make::cast(kWide, steps);
  return make::cast({to, 1}, is_const_int(zero, 0) ? whole : whole + make::cast(kWide, zero));
}

namespace {

constexpr std::initializer_list<DType> kSmall = {DType::u8, DType::i8, DType::u16, DType::i16};
constexpr std::initializer_list<DType> kF32 = {DType::f32};

// Which scale an element has: the dimension that picks it, and how many places in a row share one.
struct Grain {
  bool one_for_all;
  size_t axis;
  int64_t block;  // 1 where each place has a scale of its own
  Expr of(const BuildTensor& t, const Exprs& i) const {
    if (one_for_all) return t.at(Exprs(t.shape.size(), Expr(0)));
    if (t.rank() == 1) return t(i[axis]);
    Exprs at = i;
    at[axis] = i[axis] / Expr(block);
    return t.at(at);
  }
};

// Of input 1, the scale, beside input 0; fails where their shapes don't belong together.
Grain grain_of(const OpContext& ctx) {
  const Dims &x = ctx.input(0).shape, &scale = ctx.input(1).shape;
  const int64_t block = ctx.get_int("block_size", 0);
  if (block < 0) ctx.fail("`block_size` is " + std::to_string(block) + ", it can't be negative");
  if (block == 0 && product(scale) == 1) return {true, 0, 1};
  const auto axis = static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", 1), x.size()));
  Dims expected = block == 0 ? Dims{x[axis]} : x;
  if (block > 0) expected[axis] = (x[axis] + block - 1) / block;
  if (scale != expected)
    ctx.fail("the scale is " + to_string(ctx.input(1)) + " beside " + to_string(ctx.input(0)) + ", axis " +
             std::to_string(axis) + " and blocks of " + std::to_string(block) + " ask for " +
             to_string(ctx.input(1).dtype, expected));
  return {false, axis, std::max<int64_t>(block, 1)};
}

// Input 2, where it is given, is like the scale.
void check_zero_point(const OpContext& ctx) {
  if (ctx.has_input(2) && ctx.input(2).shape != ctx.input(1).shape &&
      (product(ctx.input(2).shape) != 1 || product(ctx.input(1).shape) != 1))
    ctx.fail("the zero point is " + to_string(ctx.input(2)) + " beside the scale " + to_string(ctx.input(1)),
             "one zero point for each scale");
}

// Of attribute `output_dtype`, whose number 0 asks for nothing.
bool asks_type(const OpContext& ctx) {
  return ctx.is_string("output_dtype") || ctx.get_int("output_dtype", 0) != 0;
}

// x scale zero_point
std::vector<TensorType> infer_quantize(const OpContext& ctx) {
  require_type(ctx, 0, kF32);
  require_type(ctx, 1, kF32);
  grain_of(ctx);
  check_zero_point(ctx);
  if (ctx.has_input(2)) require_type(ctx, 2, kSmall);
  DType to = ctx.has_input(2) ? ctx.input(2).dtype : DType::u8;
  if (asks_type(ctx)) {
    const DType asked = type_attribute(ctx, "output_dtype");
    if (ctx.has_input(2) && asked != to)
      ctx.fail("`output_dtype` is " + std::string(name_of(asked)) + " beside a zero point of " +
               std::string(name_of(to)));
    if (std::find(kSmall.begin(), kSmall.end(), asked) == kSmall.end())
      ctx.fail("`output_dtype` is " + std::string(name_of(asked)), "u8, i8, u16 or i16");
    to = asked;
  }
  return {{to, ctx.input(0).shape}};
}

void build_quantize(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Grain grain = grain_of(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    const DType to = out[0].dtype();
    const Expr zero = in.size() > 2 && in[2] ? grain.of(in[2], i) : make::imm(0, {to, 1});
    return quantized(in[0].at(i) / grain.of(in[1], i), zero, to);
  });
}

std::vector<TensorType> infer_dequantize(const OpContext& ctx) {
  require_type(ctx, 0, {DType::u8, DType::i8, DType::u16, DType::i16, DType::i32});
  require_type(ctx, 1, kF32);
  grain_of(ctx);
  check_zero_point(ctx);
  if (ctx.has_input(2)) require_same_type(ctx, 0, 2);
  if (asks_type(ctx) && type_attribute(ctx, "output_dtype") != DType::f32)
    ctx.fail("`output_dtype` isn't f32, the only one supported");
  return {{DType::f32, ctx.input(0).shape}};
}

// The difference is exact: of 16 bits in 17; an i32 has the zero point 0.
void build_dequantize(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Grain grain = grain_of(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Expr q = make::cast(kWide, in[0].at(i));
    if (in.size() > 2 && in[2]) q = q - make::cast(kWide, grain.of(in[2], i));
    return make::cast(kReal, q) * grain.of(in[1], i);
  });
}

std::vector<TensorType> infer_dynamic(const OpContext& ctx) {
  require_type(ctx, 0, kF32);
  return {{DType::u8, ctx.input(0).shape}, {DType::f32, {}}, {DType::u8, {}}};
}

// The range of x, 0 included, in 255 steps; steps of 1 where all of x is 0, as ONNX Runtime's.
void build_dynamic(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const std::vector<Axis> axes = axes_of(in[0].shape);
  const Expr zero = make::imm(0, kReal), steps = make::imm(255, kReal);
  const auto extremum = [&](const char* name, ReduceOp op) {
    const BuildTensor t = b.temp(name, {DType::f32, {}});
    b.reduce(
        t, {}, axes, op, [&](const Exprs&, const Exprs& r) { return in[0].at(r); }, zero);
    return t;
  };
  const BuildTensor low = extremum("Min", ReduceOp::min), high = extremum("Max", ReduceOp::max);
  const BuildTensor scale = ctx.has_output(1) ? out[1] : b.temp("Scale", {DType::f32, {}});
  const BuildTensor point = ctx.has_output(2) ? out[2] : b.temp("Zero", {DType::u8, {}});
  b.compute(scale, {}, [&](const Exprs&) {
    return make::select(eq(high(), low()), make::imm(1, kReal), (high() - low()) / steps);
  });
  b.compute(point, {}, [&](const Exprs&) {
    return quantized((zero - low()) / scale(), make::imm(0, {DType::u8, 1}), DType::u8);
  });
  b.compute(out[0], axes,
            [&](const Exprs& i) { return quantized(in[0].at(i) / scale(), point(), DType::u8); });
}

}  // namespace

void register_quantize(Rows& rows) {
  rows.push_back({.name = "QuantizeLinear",
                  .since = 10,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::elementwise,
                  .params = "X S Z",
                  .infer = infer_quantize,
                  .build = build_quantize,
                  .note = "ties to even; NaN becomes the type's upper bound"});
  rows.push_back({.name = "DequantizeLinear",
                  .since = 10,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::elementwise,
                  .params = "X S Z",
                  .infer = infer_dequantize,
                  .build = build_dequantize});
  rows.push_back({.name = "DynamicQuantizeLinear",
                  .since = 11,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::opaque,
                  .infer = infer_dynamic,
                  .build = build_dynamic,
                  .note = "of zeros only the scale is 1"});
}

}  // namespace nestor::ops
