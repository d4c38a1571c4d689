// Sums of products over two tensors, matrices or images: the loop nests that MatMul, Conv and their kin of
// small types share. What an operator makes of the two elements before they meet (a wider type, a zero point
// taken away) is a Factor.
#pragma once

#include "src/ops/common.h"
#include "src/ops/window.h"

namespace nestor::ops {

// The factor that an element of an operand is, given the indices of the result.
using Factor = std::function<Expr(const Expr& element, const Exprs& result)>;
Factor widened(DType to);  // the element itself, in another type

// Types that sums of products are made of; those of 16 bits are added up in f32 and rounded once.
inline constexpr std::initializer_list<DType> kFactors = {DType::f32, DType::f64, DType::i64,  DType::i32,
                                                          DType::i16, DType::i8,  DType::u64,  DType::u32,
                                                          DType::u16, DType::u8,  DType::bf16, DType::f16};
bool is_half(DType t);
// Of the product of inputs a and b: their type; f32 where one is f32 and the other of 16 bits, as
// widen_halves makes it. Fails where they differ else.
DType product_type(const OpContext& ctx, int a, int b);

// The parts of a MatMul's shapes, after 1-D operands were promoted to matrices as NumPy does.
struct MatMulShape {
  Dims batch_a, batch_b, batch;
  Dim m = 1, n = 1, k = 1;
  bool vector_a = false, vector_b = false;
  Dims output() const;
  std::vector<Axis> axes() const;  // of the output: b0 b1 ... i j
};
// Of inputs a and b; fails where they don't make a product.
MatMulShape matmul_shape(const OpContext& ctx, int a, int b);
// out[b..., i, j] += A[b..., i, k] * B[b..., k, j]; a vector operand has no i or no j.
void multiply(FuncBuilder& f, const MatMulShape& s, const BuildTensor& a, const BuildTensor& b,
              const BuildTensor& out, const Factor& left, const Factor& right);

// Types that are convolved.
inline constexpr std::initializer_list<DType> kConvolved = {DType::f32, DType::f64, DType::bf16, DType::f16};
// Input 2 is the bias of a convolution, where there is one: [filters], of the data's type.
void require_bias(const OpContext& ctx, const Dim& filters);

struct ConvShape {
  Window window;
  Dim n, channels, filters;
  int64_t group;
  Dims output() const;
  ConvShape typical() const;       // with a number for each size that is open
  std::vector<Axis> axes() const;  // of the output: n o y x
};
// Of input 0 and the weights, input w; fails where they don't make a convolution.
ConvShape conv_shape(const OpContext& ctx, int w);
// out[n, o, y...] += P[n, c, y + r...] * W[o, c, r...]; P is padded already.
void convolve(FuncBuilder& f, const ConvShape& s, const BuildTensor& p, const BuildTensor& w,
              const BuildTensor& out, const Factor& left, const Factor& right);

}  // namespace nestor::ops
