// Sliding windows: what convolution and pooling share. Sizes of outputs, paddings, and the block that pads.
#pragma once

#include "src/ops/common.h"

namespace nestor::ops {

// One entry per spatial dimension.
struct Window {
  Dims input, kernel, stride, dilation;
  Dims pad_begin, pad_end;  // pad_end as given; `reach` says how much further windows may look in ceil mode
  Dims output;
  size_t rank() const { return input.size(); }
  Dim extent(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }
  // The elements of the padded input that windows touch.
  Dim reach(size_t d) const;
  bool is_padded() const;  // whether some window touches an element outside of the input
};

// Reads strides, dilations, pads, auto_pad (and ceil_mode where the operator has it) of a node whose input 0
// is [N, C, spatial...]. Fails where one is negative, zero, or of the wrong length.
Window read_window(const OpContext& ctx, const Dims& kernel);

// Parts of that: a list attribute with one entry per spatial dimension, each at least `least`; the name of a
// padding; whether the kernel has a size in each dimension.
Dims spatial_list(const OpContext& ctx, const char* name, size_t count, int64_t fallback, int64_t least);
std::string read_auto_pad(const OpContext& ctx);
void require_kernel(const OpContext& ctx, const Dims& kernel, size_t rank);
// From the first to the last of `taps` elements that are `apart` from each other; fails where that is no size
// of an image.
int64_t extent_of(const OpContext& ctx, int64_t taps, int64_t apart, size_t d);

// How many pairs of i, 0 <= i < count, and tap r, 0 <= r < taps, have 0 <= stride * i + dilation * r - pad <
// of: products of a convolution's outputs, or of a transposed one's inputs, that meet no padding.
int64_t pairs_inside(int64_t count, int64_t taps, int64_t stride, int64_t dilation, int64_t pad, int64_t of);

// X, or a block P that holds X with `fill` around it: P[n,c,h...] with spatial extents reach(d).
BuildTensor padded_input(FuncBuilder& b, const Window& w, const BuildTensor& x, const Expr& fill);
// P in any case, of what `element` makes of X's, of the type of `fill`.
BuildTensor padded_copy(FuncBuilder& b, const Window& w, const BuildTensor& x, const Expr& fill,
                        const std::function<Expr(const Expr&)>& element);

std::vector<Axis> output_axes(const Window& w);                                    // y x
std::vector<Axis> kernel_axes(const Window& w);                                    // r s
Expr input_index(const Window& w, size_t d, const Expr& output, const Expr& tap);  // of the padded input

}  // namespace nestor::ops
