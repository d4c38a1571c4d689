// Windows that enlarge an image: input element i and tap r add to output stride * i + dilation * r - pad.
// What ConvTranspose and Col2Im share: sizes, paddings, and which taps reach which outputs.
#pragma once

#include <algorithm>

#include "src/ops/common.h"

namespace nestor::ops {

struct TransposedWindow {
  Dim input;
  int64_t kernel, stride, dilation, pad;  // of one dimension; pad: what is cut off in front
  Dim output;
};

// Outputs first + stride * a + apart * j, 0 <= a < count, 0 <= j < residues: tap t of the sum, 0 <= t < taps,
// is input[a + from + t * input_step] * weight[tap + j - t * tap_step]. No taps: nothing reaches them.
struct ResidueClass {
  int64_t first, stride;
  Dim count;
  int64_t apart = 1, residues = 1, taps = 0, from = 0, input_step = 0, tap = 0, tap_step = 0;
  bool takes(const ResidueClass& next) const {
    return next.count == count && next.stride == stride && next.apart == apart && next.taps == taps &&
           next.first == first + apart * residues &&
           (taps == 0 || (next.from == from && next.tap == tap + residues));
  }
};
using ResidueClasses = std::vector<ResidueClass>;

// Of a ConvTranspose; an empty image has no outputs.
struct TransposedShape {
  Dim n, channels, filters;
  int64_t group;
  // Weights: [filters, channels of a group, ...], else [channels, filters of a group, ...].
  bool filters_first;
  Dims input, kernel, stride, dilation, pad, output;  // by spatial dimension
  bool strided() const {
    return std::any_of(stride.begin(), stride.end(), [](int64_t n) { return n > 1; });
  }
  TransposedWindow window(size_t d) const {
    return {input[d], kernel[d], stride[d], dilation[d], pad[d], output[d]};
  }
};

// One class of each dimension: together they are all outputs, each of them once. Empty: there are none.
std::vector<ResidueClasses> classes_of(const TransposedShape& s);

// ONNX's operator, or the same with its weights in Conv's order.
inline bool is_conv_transpose(const Node& n) {
  return n.op == "ConvTranspose" && (n.domain.empty() || n.domain == "nestor");
}

// Fails where input 0, the weights and the attributes make none.
TransposedShape transposed_shape(const OpContext& ctx);

}  // namespace nestor::ops
