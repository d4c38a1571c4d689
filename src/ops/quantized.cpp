// Products of bytes, added up in i32: MatMulInteger and ConvInteger, and QLinearMatMul and QLinearConv, which
// bring the sums back to bytes. A byte q with zero point z and scale s stands for s * (q - z).
//
// An i32 wraps around, as ONNX Runtime's does. A result of 8 bits is round(sum * m) + z, cut off at the
// type's bounds, with m = a_scale * b_scale / y_scale and ties to even, all of it in f32.
//
// How these become sums without zero points, which machines have instructions for, is a graph pass
// (src/graph/expand_quantized.cpp); `ConvInteger` of domain nestor is what that leaves.
#include <algorithm>

#include "src/ops/products.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

constexpr std::initializer_list<DType> kBytes = {DType::u8, DType::i8};
constexpr std::initializer_list<DType> kI32 = {DType::i32}, kF32 = {DType::f32};
constexpr Type kSum{DType::i32, 1}, kReal{DType::f32, 1};

// A scale or zero point: one number, or one per row or column of the result, `axis` of it.
Expr parameter_at(const BuildTensor& t, const Exprs& result, size_t axis) {
  if (product(t.shape) == 1) return t.at(Exprs(t.shape.size(), Expr(0)));
  return t.shape.size() == 1 ? t.at({result[axis]}) : read_broadcast(t, result);
}

Factor less_zero_point(const BuildTensor& zero, size_t axis) {
  return [&zero, axis](const Expr& e, const Exprs& result) {
    const Expr wide = make::cast(kSum, e);
    if (!zero || (zero.immediate && is_const_int(zero.immediate, 0))) return wide;
    return wide - make::cast(kSum, parameter_at(zero, result, axis));
  };
}

// Input i is a zero point of the element type of input `of`, or left out.
void require_zero_point(const OpContext& ctx, int i, int of) {
  if (ctx.has_input(i)) require_same_type(ctx, of, i);
}

// Input i, a scale or zero point, has one element or one of the given counts.
void require_count(const OpContext& ctx, int i, const std::vector<int64_t>& counts) {
  if (!ctx.has_input(i)) return;
  const int64_t count = product(ctx.input(i).shape);
  std::string allowed = "1";
  bool ok = count == 1;
  for (const int64_t c : counts) {
    ok |= count == c;
    allowed += " or " + std::to_string(c);
  }
  if (!ok)
    ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", it must have " + allowed +
             " elements");
}

// round(sum * a_scale * b_scale / y_scale) + y_zero, as a byte.
Expr requantized(const Expr& sum, const Expr& a_scale, const Expr& b_scale, const Expr& y_scale,
                 const Expr& y_zero, DType to) {
  return quantized(make::cast(kReal, sum) * (a_scale * b_scale / y_scale), y_zero, to);
}

// ---- Matrices: A B a_zero_point b_zero_point

size_t row_axis(const MatMulShape& s) {
  return s.batch.size();
}
size_t column_axis(const MatMulShape& s) {
  return s.batch.size() + (s.vector_a ? 0 : 1);
}

// Per row or column they are vectors, or have the operand's dimensions, the one that is summed over being 1.
void check_matmul_parameters(const OpContext& ctx, const MatMulShape& s, const std::vector<int>& of_a,
                             const std::vector<int>& of_b) {
  for (const auto& [inputs, count, batch, rows] :
       {std::tuple{of_a, s.vector_a ? Dim(1) : s.m, s.batch_a, true},
        std::tuple{of_b, s.vector_b ? Dim(1) : s.n, s.batch_b, false}})
    for (const int i : inputs) {
      if (!ctx.has_input(i)) continue;
      const Dims &got = ctx.input(i).shape, one_each = rows ? Dims{count, 1} : Dims{1, count};
      if (product(got) == 1 || got == Dims{count}) continue;
      const size_t lead = got.size() < 2 ? 0 : got.size() - 2;
      const Dims before(got.begin(), got.begin() + static_cast<long>(lead)),
          last(got.begin() + static_cast<long>(lead), got.end());
      if (last != one_each || got.size() > s.output().size() || (product(before) != 1 && before != batch))
        ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", where one value, [" +
                 std::to_string(count) + "] or " + to_string(TensorType{ctx.input(i).dtype, one_each}) +
                 " was expected: one for each " + (rows ? "row" : "column"));
    }
}

std::vector<TensorType> infer_matmul_integer(const OpContext& ctx) {
  require_type(ctx, 0, kBytes);
  require_type(ctx, 1, kBytes);
  require_zero_point(ctx, 2, 0);
  require_zero_point(ctx, 3, 1);
  const MatMulShape s = matmul_shape(ctx, 0, 1);
  check_matmul_parameters(ctx, s, {2}, {3});
  return {{DType::i32, s.output()}};
}

BuildTensor input_or_none(const Tensors& in, size_t i) {
  return i < in.size() ? in[i] : BuildTensor{};
}

void build_matmul_integer(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const MatMulShape s = matmul_shape(ctx, 0, 1);
  const BuildTensor za = input_or_none(in, 2), zb = input_or_none(in, 3);
  multiply(b, s, in[0], in[1], out[0], less_zero_point(za, row_axis(s)), less_zero_point(zb, column_axis(s)));
}

// a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point
std::vector<TensorType> infer_qlinear_matmul(const OpContext& ctx) {
  for (const int i : {0, 3, 7}) require_type(ctx, i, kBytes);
  for (const int i : {1, 4, 6}) require_type(ctx, i, kF32);
  require_same_type(ctx, 0, 2);
  require_same_type(ctx, 3, 5);
  const MatMulShape s = matmul_shape(ctx, 0, 3);
  check_matmul_parameters(ctx, s, {1, 2}, {4, 5});
  for (const int i : {6, 7}) require_count(ctx, i, {});
  return {{ctx.input(7).dtype, s.output()}};
}

void build_qlinear_matmul(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const MatMulShape s = matmul_shape(ctx, 0, 3);
  const BuildTensor t = b.temp("T", {DType::i32, out[0].shape});
  multiply(b, s, in[0], in[3], t, less_zero_point(in[2], row_axis(s)),
           less_zero_point(in[5], column_axis(s)));
  b.compute(out[0], s.axes(), [&](const Exprs& i) {
    return requantized(t.at(i), parameter_at(in[1], i, row_axis(s)), parameter_at(in[4], i, column_axis(s)),
                       parameter_at(in[6], i, 0), parameter_at(in[7], i, 0), out[0].dtype());
  });
}

// ---- Images: weights have a scale and a zero point per filter, or one; padding stands for 0

constexpr size_t kFilterAxis = 1;

Expr fill_of(const BuildTensor& x, const BuildTensor& zero) {
  return zero ? parameter_at(zero, {}, 0) : constant_like(x, 0);
}

std::vector<TensorType> infer_conv_integer(const OpContext& ctx) {
  require_type(ctx, 0, kBytes);
  require_type(ctx, 1, kBytes);
  require_zero_point(ctx, 2, 0);
  require_zero_point(ctx, 3, 1);
  const ConvShape s = conv_shape(ctx, 1);
  require_count(ctx, 2, {});
  require_count(ctx, 3, {s.filters});
  return {{DType::i32, s.output()}};
}

void build_conv_integer(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const ConvShape s = conv_shape(ctx, 1);
  const BuildTensor zx = input_or_none(in, 2), zw = input_or_none(in, 3);
  const BuildTensor p = padded_input(b, s.window, in[0], fill_of(in[0], zx));
  convolve(b, s, p, in[1], out[0], less_zero_point(zx, 0), less_zero_point(zw, kFilterAxis));
}

// X W fill: no zero point is taken away, what stands around the image is `fill`.
std::vector<TensorType> infer_filled_conv(const OpContext& ctx) {
  require_type(ctx, 0, kBytes);
  require_type(ctx, 1, kBytes);
  require_zero_point(ctx, 2, 0);
  require_count(ctx, 2, {});
  return {{DType::i32, conv_shape(ctx, 1).output()}};
}

void build_filled_conv(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const ConvShape s = conv_shape(ctx, 1);
  const BuildTensor p = padded_input(b, s.window, in[0], fill_of(in[0], input_or_none(in, 2)));
  convolve(b, s, p, in[1], out[0], widened(DType::i32), widened(DType::i32));
}

// X W Z: of what the bytes X stand for less a scale, X - Z, which is what P holds. Scales are in the weights.
std::vector<TensorType> infer_dequantized_conv(const OpContext& ctx) {
  require_type(ctx, 0, kBytes);
  require_type(ctx, 1, kF32);
  require_zero_point(ctx, 2, 0);
  require_count(ctx, 2, {});
  return {{DType::f32, conv_shape(ctx, 1).output()}};
}

void build_dequantized_conv(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const ConvShape s = conv_shape(ctx, 1);
  const BuildTensor zero = input_or_none(in, 2);
  const Factor number = less_zero_point(zero, 0);
  const BuildTensor p = padded_copy(b, s.window, in[0], make::imm(0, kReal),
                                    [&](const Expr& q) { return make::cast(kReal, number(q, {})); });
  convolve(b, s, p, in[1], out[0], widened(DType::f32), widened(DType::f32));
}

// x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B
std::vector<TensorType> infer_qlinear_conv(const OpContext& ctx) {
  for (const int i : {0, 3, 7}) require_type(ctx, i, kBytes);
  for (const int i : {1, 4, 6}) require_type(ctx, i, kF32);
  require_same_type(ctx, 0, 2);
  require_same_type(ctx, 3, 5);
  const ConvShape s = conv_shape(ctx, 3);
  for (const int i : {1, 2, 6, 7}) require_count(ctx, i, {});
  for (const int i : {4, 5}) require_count(ctx, i, {s.filters});
  if (ctx.has_input(8)) {
    require_type(ctx, 8, kI32);
    if (ctx.input(8).shape != Dims{s.filters})
      ctx.fail("the bias is " + to_string(ctx.input(8)) + ", it must be " +
               to_string(DType::i32, Dims{s.filters}));
  }
  return {{ctx.input(7).dtype, s.output()}};
}

void build_qlinear_conv(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const ConvShape s = conv_shape(ctx, 3);
  const BuildTensor bias = input_or_none(in, 8);
  const BuildTensor p = padded_input(b, s.window, in[0], fill_of(in[0], in[2]));
  const BuildTensor t = b.temp("T", {DType::i32, out[0].shape});
  convolve(b, s, p, in[3], t, less_zero_point(in[2], 0), less_zero_point(in[5], kFilterAxis));
  b.compute(out[0], s.axes(), [&](const Exprs& i) {
    return requantized(bias ? t.at(i) + bias(i[1]) : t.at(i), parameter_at(in[1], i, 0),
                       parameter_at(in[4], i, kFilterAxis), parameter_at(in[6], i, 0),
                       parameter_at(in[7], i, 0), out[0].dtype());
  });
}

}  // namespace

void register_quantized(Rows& rows) {
  rows.push_back({.name = "MatMulInteger",
                  .since = 10,
                  .min_inputs = 2,
                  .max_inputs = 4,
                  .pattern = Pattern::anchor,
                  .params = "A B ZA ZB",
                  .infer = infer_matmul_integer,
                  .build = build_matmul_integer,
                  .note = "sums wrap around"});
  rows.push_back({.name = "QLinearMatMul",
                  .since = 10,
                  .min_inputs = 8,
                  .max_inputs = 8,
                  .pattern = Pattern::anchor,
                  .params = "A SA ZA B SB ZB SY ZY",
                  .infer = infer_qlinear_matmul,
                  .build = build_qlinear_matmul,
                  .note = "round(sum * (a_scale * b_scale / y_scale)), ties to even"});
  rows.push_back({.name = "ConvInteger",
                  .since = 10,
                  .min_inputs = 2,
                  .max_inputs = 4,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X W ZX ZW",
                  .infer = infer_conv_integer,
                  .build = build_conv_integer,
                  .note = "sums wrap around"});
  rows.push_back({.name = "ConvInteger",
                  .domain = "nestor",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X W F",
                  .infer = infer_filled_conv,
                  .build = build_filled_conv,
                  .note = "without zero points; F stands around the image"});
  rows.push_back({.name = "DequantizedConv",
                  .domain = "nestor",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X W Z",
                  .infer = infer_dequantized_conv,
                  .build = build_dequantized_conv,
                  .note = "of X - Z, bytes and their zero point"});
  rows.push_back({.name = "QLinearConv",
                  .since = 10,
                  .min_inputs = 8,
                  .max_inputs = 9,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X SX ZX W SW ZW SY ZY B",
                  .infer = infer_qlinear_conv,
                  .build = build_qlinear_conv,
                  .note = "round(sum * (x_scale * w_scale / y_scale)), ties to even"});
}

}  // namespace nestor::ops
