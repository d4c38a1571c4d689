#include "src/ops/indices.h"

#include <algorithm>

namespace nestor::ops {

namespace {

void check_index(const OpContext& ctx, int64_t index, const Dim& extent) {
  if (!must_be_at_most(index < 0 ? -index : index + 1, extent, "an index is within its axis"))
    ctx.fail("index " + std::to_string(index) + " is outside [" + to_string(-extent) + ", " +
             to_string(extent) + ")");
}

}  // namespace

size_t indexed_axis(const OpContext& ctx) {
  if (ctx.input(0).shape.empty()) ctx.fail("the data is a scalar");
  return static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", 0), ctx.input(0).shape.size()));
}

void check_indices(const OpContext& ctx, const Dim& extent) {
  require_type(ctx, 1, {DType::i64, DType::i32});
  const Tensor* constant = ctx.constant(1);
  for (int64_t k = 0; constant && k < constant->size(); ++k) check_index(ctx, constant->get_int(k), extent);
  if (extent == 0 && product(ctx.input(1).shape) != 0) ctx.fail("the axis to index has no elements");
}

void check_elements(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  const size_t axis = indexed_axis(ctx);
  require_rank(ctx, 1, data.size());
  for (size_t d = 0; d < data.size(); ++d)
    if (d != axis && !must_be_at_most(indices[d], data[d]))
      ctx.fail("the indices " + to_string(ctx.input(1)) + " reach beyond the data " +
               to_string(ctx.input(0)));
  check_indices(ctx, data[axis]);
}

Expr position(const Expr& index, const Dim& extent) {
  if (const auto constant = as_int(index))
    return *constant < 0 ? (*constant + extent).expr() : Expr(*constant);
  const Expr i = make::cast({DType::i64, 1}, index);
  const Expr from_start = make::select(lt(i, 0), i + extent.expr(), i);
  return min(max(from_start, 0), max(extent - 1, 0).expr());
}

void check_tuples(const OpContext& ctx, int64_t first) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  require_type(ctx, 1, {DType::i64, DType::i32});
  if (data.empty()) ctx.fail("the data is a scalar");
  const auto most = static_cast<int64_t>(data.size()) - first;
  if (indices.empty() || indices.back() < 1 || indices.back() > most)
    ctx.fail("the indices are " + to_string(ctx.input(1)) +
             "; their last dimension is an index for each of some "
             "dimensions of the data, 1 to " +
             std::to_string(most));
  const Tensor* constant = ctx.constant(1);
  for (int64_t k = 0; constant && k < constant->size(); ++k)
    check_index(ctx, constant->get_int(k), data[static_cast<size_t>(first + k % indices.back())]);
  for (int64_t d = first; d < first + indices.back(); ++d)
    if (data[static_cast<size_t>(d)] == 0 && product(indices) != 0)
      ctx.fail("dimension " + std::to_string(d) + " of the data has no elements to index");
}

Exprs tuple_at(const BuildTensor& indices, const Exprs& which, const Dims& data, int64_t first) {
  Exprs out;
  for (int64_t k = 0; k < indices.shape.back(); ++k) {
    Exprs at = which;
    at.emplace_back(k);
    out.push_back(position(indices.at(at), data[static_cast<size_t>(first + k)]));
  }
  return out;
}

}  // namespace nestor::ops
