// What the files of Resize share.
#pragma once

#include <utility>
#include <vector>

#include "src/ops/common.h"

namespace nestor::ops {

// One axis of the input and of the result; x of element i is (p i + q) / r.
struct Line {
  size_t axis;
  Dim in, out;
  Dim p = 1, q = 0, r = 1;
  double scale = 1;   // out / in, or what was given for it; unknown where `open`
  bool open = false;  // out / in depends on open sizes

  Expr numerator(const Expr& i) const { return i * p.expr() + q.expr(); }
  Expr clamped(const Expr& index) const { return min(max(index, 0), (in - 1).expr()); }
};

// The elements of the input along one axis that an element of the result is made of, and what they weigh; of
// one, it is that. Weights are parts of `total`, if there is one, else of 1.
struct Taps {
  Exprs at = {}, weights = {};
  Expr total = {};
};
using TapsAt = std::function<Taps(const Expr& index)>;
// The same, from tables that blocks before fill, where a size of the axis is open, or it is a row that is
// long.
TapsAt in_tables(FuncBuilder& b, const Line& l, bool is_row, const TapsAt& taps);

// The first of the continued fractions of `value` that is it in f32: 13/10 is what 1.3 was meant to be.
std::pair<int64_t, int64_t> simplest_fraction(double value);

// tf_crop_and_resize: the result shows a part of the input, its region of interest.
bool crops(const OpContext& ctx);
// Where the elements of the k-th of `axes` axes lie; false: where they lie without it.
bool set_region(const OpContext& ctx, size_t k, size_t axes, Line& l);
// The value at `index` of the result, or the extrapolation value outside of the input.
Expr or_extrapolated(const OpContext& ctx, const std::vector<Line>& lines, const Exprs& index,
                     const Expr& value);

// Of a numerator: how far x lies behind the element before it, from 0 to below 1.
Expr fraction(const Line& l, const Expr& numerator, Type t);

// Blocks that make `to` from `from` along l, an axis that shrinks, by a linear or cubic filter as wide as an
// element of the result, so that every element of the input counts.
void build_antialiased(const OpContext& ctx, FuncBuilder& b, const Line& l, bool is_cubic,
                       const BuildTensor& from, const BuildTensor& to);

}  // namespace nestor::ops
