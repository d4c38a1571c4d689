// Windows that enlarge an image: input element i and tap r add to output stride * i + dilation * r - pad.
// What ConvTranspose and Col2Im share: sizes, paddings, and which taps reach which outputs.
#pragma once

#include <algorithm>

#include "src/ops/common.h"

namespace nestor::ops {

struct TransposedWindow {
  int64_t input, kernel, stride, dilation, pad, output;  // of one dimension; pad: what is cut off in front
};

// Outputs first + stride * a + j, 0 <= a < count, 0 <= j < residues: tap t of the sum, 0 <= t < taps, is
// input[a + from + t * input_step] * weight[tap + j - t * tap_step].
struct ResidueClass {
  int64_t first, count, residues, taps, from, input_step, tap, tap_step;
  bool takes(const ResidueClass& next) const {
    return next.count == count && next.taps == taps && next.first == first + residues &&
           (taps == 0 || (next.from == from && next.tap == tap + residues));
  }
};

std::vector<ResidueClass> classes_of(const TransposedWindow& w);

// Of a ConvTranspose; an empty image has no outputs.
struct TransposedShape {
  int64_t n, channels, filters, group;
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

// Fails where input 0, the weights and the attributes make none.
TransposedShape transposed_shape(const OpContext& ctx);

}  // namespace nestor::ops
