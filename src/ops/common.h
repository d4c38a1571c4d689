// What operators share: names of axes, broadcasting, checks of types and axes.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "nestor/ops.h"

namespace nestor::ops {

using nestor::Dims;
using Exprs = std::vector<Expr>;
using Tensors = std::vector<BuildTensor>;

// Sizes, steps and paddings up to here can be added, and multiplied by few, without overflow; a tensor of
// more elements than that has no memory.
inline constexpr int64_t kMostElements = int64_t{1} << 40;

inline constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::f64};
inline constexpr std::initializer_list<DType> kNumbers = {DType::f32, DType::f64, DType::i64, DType::i32,
                                                          DType::i16, DType::i8,  DType::u64, DType::u32,
                                                          DType::u16, DType::u8};
inline constexpr std::initializer_list<DType> kIntegers = {DType::i64, DType::i32, DType::i16, DType::i8,
                                                           DType::u64, DType::u32, DType::u16, DType::u8};
inline constexpr std::initializer_list<DType> kBool = {DType::boolean};

// Fails where input i is of another type, naming the nearest that would do.
void require_type(const OpContext& ctx, int i, const std::initializer_list<DType>& allowed);
// Fails where inputs i and j differ in element type.
void require_same_type(const OpContext& ctx, int i, int j);
void require_rank(const OpContext& ctx, int i, size_t rank);
// Whether two shapes are equal, or can be: then runs require it.
bool must_be(const Dims& shape, const Dims& wanted);
void require_shape(const OpContext& ctx, int i, const Dims& shape);
// Whether a <= b, or can be: then runs require it, whatever sizes are usual.
bool must_be_at_most(const Dim& a, const Dim& b, const std::string& why = "");

// The element type that an attribute says, by ONNX's number or name for it; fails where it is missing.
DType type_attribute(const OpContext& ctx, const std::string& name);

// The loops of a tensor of that shape: i | i j | b i j | n c h w | i0 i1 i2 i3 i4 ...
std::vector<Axis> axes_of(const Dims& shape);

// An axis counted from the end where negative; fails outside [-rank, rank-1] (or rank, where `inclusive`).
int64_t normal_axis(const OpContext& ctx, int64_t axis, size_t rank, bool inclusive = false);
// The same for a list, without repetitions; in the given order.
Dims normal_axes(const OpContext& ctx, const Dims& axes, size_t rank);

// The shape that a and b broadcast to (NumPy's rule), or fails.
Dims broadcast_shapes(const OpContext& ctx, const Dims& a, const Dims& b);
// Element of t that a result at `indices` reads: trailing dimensions are aligned, a dimension of 1 is read at
// 0.
Expr read_broadcast(const BuildTensor& t, const Exprs& indices);

// x in steps of one as an integer of 8 or 16 bits, of `zero`'s type: round(x) + zero, ties to even, cut off
// at the type's bounds; NaN is `zero`.
Expr quantized(const Expr& x, const Expr& zero, DType to);

// Immediates of a tensor's element type.
Expr constant_like(const BuildTensor& t, double value);
// 1 / n
Expr one_over(const Dim& n, Type t);
// e / n rounded once for floats, truncated for integers.
Expr divided_by_count(Expr e, const Expr& count);

}  // namespace nestor::ops
