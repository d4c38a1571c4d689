// Gather and GatherElements: elements picked by a tensor of indices. A negative index counts from the end.
// Constant indices out of range are refused; those computed at run time are clamped to the axis, since a
// kernel has no way to refuse and must not read outside its memory.
#include <algorithm>

#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

size_t gather_axis(const OpContext& ctx) {
  return static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", 0), ctx.input(0).shape.size()));
}

void check_indices(const OpContext& ctx, int64_t extent) {
  require_type(ctx, 1, {DType::i64, DType::i32});
  const Tensor* constant = ctx.constant(1);
  for (int64_t k = 0; constant && k < constant->size(); ++k) {
    const int64_t v = constant->get_int(k);
    if (v < -extent || v >= extent)
      ctx.fail("index " + std::to_string(v) + " is outside [" + std::to_string(-extent) + ", " +
               std::to_string(extent) + ")");
  }
}

// The position on an axis that an index stands for.
Expr position(const Expr& index, int64_t extent) {
  if (const auto constant = as_int(index)) return *constant < 0 ? *constant + extent : *constant;
  const Expr i = make::cast({DType::i64, 1}, index);
  const Expr from_start = make::select(lt(i, 0), i + Expr(extent), i);
  return min(max(from_start, 0), Expr(std::max<int64_t>(extent - 1, 0)));
}

// The indices' shape takes the place of the axis.
std::vector<TensorType> infer_gather(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  if (data.empty()) ctx.fail("the data is a scalar");
  const size_t axis = gather_axis(ctx);
  check_indices(ctx, data[axis]);
  if (data[axis] == 0 && product(indices) != 0) ctx.fail("the axis to gather from has no elements");
  Dims out(data.begin(), data.begin() + static_cast<int64_t>(axis));
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), data.begin() + static_cast<int64_t>(axis) + 1, data.end());
  return {{ctx.input(0).dtype, out}};
}

void build_gather(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor &data = in[0], &indices = in[1];
  const auto axis = static_cast<int64_t>(gather_axis(ctx));
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    const auto first = i.begin() + axis, last = first + indices.rank();
    Exprs at(i.begin(), first);
    at.push_back(position(indices.at(Exprs(first, last)), data.shape[static_cast<size_t>(axis)]));
    at.insert(at.end(), last, i.end());
    return data.at(at);
  });
}

// One index per element of the result: data[..., indices[...], ...] along the axis.
std::vector<TensorType> infer_elements(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  const size_t axis = gather_axis(ctx);
  require_rank(ctx, 1, data.size());
  for (size_t d = 0; d < data.size(); ++d)
    if (d != axis && indices[d] > data[d])
      ctx.fail("the indices " + to_string(ctx.input(1)) + " reach beyond the data " +
               to_string(ctx.input(0)));
  check_indices(ctx, data[axis]);
  if (data[axis] == 0 && product(indices) != 0) ctx.fail("the axis to gather from has no elements");
  return {{ctx.input(0).dtype, indices}};
}

void build_elements(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const size_t axis = gather_axis(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at = i;
    at[axis] = position(in[1].at(i), in[0].shape[axis]);
    return in[0].at(at);
  });
}

}  // namespace

void register_gather(Rows& rows) {
  for (const bool elements : {false, true})
    rows.push_back({.name = elements ? "GatherElements" : "Gather",
                    .since = elements ? 11 : 1,
                    .min_inputs = 2,
                    .max_inputs = 2,
                    .pattern = Pattern::injective,
                    .params = "X I",
                    .infer = elements ? infer_elements : infer_gather,
                    .build = elements ? build_elements : build_gather,
                    .note = "indices out of range that are known only at run time are clamped"});
}

}  // namespace nestor::ops
