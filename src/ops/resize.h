// What the files of Resize share.
#pragma once

#include "src/ops/common.h"

namespace nestor::ops {

// One axis of the input and of the result; x of element i is (p i + q) / r.
struct Line {
  size_t axis;
  Dim in, out;
  Dim p = 1, q = 0, r = 1;
  double scale = 1;  // out / in, or what was given for it; unknown where r is

  Expr numerator(const Expr& i) const { return i * p.expr() + q.expr(); }
  Expr clamped(const Expr& index) const { return min(max(index, 0), (in - 1).expr()); }
};

// Of a numerator: how far x lies behind the element before it, from 0 to below 1.
Expr fraction(const Line& l, const Expr& numerator, Type t);

// Blocks that make `to` from `from` along l, an axis that shrinks, by a linear or cubic filter as wide as an
// element of the result, so that every element of the input counts.
void build_antialiased(const OpContext& ctx, FuncBuilder& b, const Line& l, bool is_cubic,
                       const BuildTensor& from, const BuildTensor& to);

}  // namespace nestor::ops
