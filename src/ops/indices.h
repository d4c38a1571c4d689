// Elements that a tensor of indices, input 1 of Gather and Scatter and what is like them, picks of the data,
// input 0. A negative index counts from the end. Constant indices out of range are refused; those computed at
// run time are clamped, since a kernel has no way to refuse and must stay inside of its memory. With
// --check-indices a kernel of its own looks for them first.
#pragma once

#include "src/ops/common.h"

namespace nestor::ops {

// The attribute `axis`, of the data.
size_t indexed_axis(const OpContext& ctx);
// Fails where the indices are no integers, or a constant one isn't in [-extent, extent), or there are any
// and no extent.
void check_indices(const OpContext& ctx, const Dim& extent);
// Fails where the indices aren't one for each of some elements of the data, along `axis`: of other
// dimensions, or more along the others than the data has.
void check_elements(const OpContext& ctx);
// The position on an axis that an index stands for.
Expr position(const Expr& index, const Dim& extent);

// Tuples of indices, along the indices' last dimension, for dimensions of the data from `first` on.
void check_tuples(const OpContext& ctx, int64_t first);
Exprs tuple_at(const BuildTensor& indices, const Exprs& which, const Dims& data, int64_t first);

OpDef check_indices_row();

}  // namespace nestor::ops
