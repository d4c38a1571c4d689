// ScatterND and ScatterElements (Scatter before opset 11): a copy of the data in which updates take the
// places that indices say, or are combined with what is there. A negative index counts from the end; where
// several updates have one place, the last in the order of the indices is kept, or all are combined in that
// order. Indices out of range are refused where they are constant and clamped where they come at run time, as
// Gather's are.
#include <algorithm>
#include <functional>

#include "src/ops/indices.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// What an element becomes by an update.
Expr combined(const OpContext& ctx, const Expr& old, const Expr& update) {
  const std::string reduction = ctx.get_string("reduction", "none");
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  if (reduction == "max") return max(old, update);
  if (reduction == "min") return min(old, update);
  return update;
}

void check_reduction(const OpContext& ctx) {
  const std::string reduction = ctx.get_string("reduction", "none");
  const char* const known[] = {"none", "add", "mul", "max", "min"};
  if (std::find(std::begin(known), std::end(known), reduction) == std::end(known))
    ctx.fail("`reduction` is \"" + reduction + "\"", "none, add, mul, max or min");
  if (reduction != "none") require_type(ctx, 0, kNumbers);
}

void build_scatter(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out,
                   const std::function<Exprs(const Exprs&)>& place) {
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) { return in[0].at(i); });
  b.compute(
      out[0], axes_of(in[2].shape),
      [&](const Exprs& i) { return combined(ctx, out[0].at(place(i)), in[2].at(i)); }, place);
}

// data[indices[i..., :], j...] = updates[i..., j...]
std::vector<TensorType> infer_nd(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  check_tuples(ctx, 0);
  require_same_type(ctx, 0, 2);
  check_reduction(ctx);
  Dims updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), data.begin() + indices.back(), data.end());
  require_shape(ctx, 2, updates);
  return {ctx.input(0)};
}

void build_nd(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const auto outer = static_cast<int64_t>(in[1].rank()) - 1;
  build_scatter(ctx, b, in, out, [&](const Exprs& i) {
    Exprs at = tuple_at(in[1], Exprs(i.begin(), i.begin() + outer), in[0].shape, 0);
    at.insert(at.end(), i.begin() + outer, i.end());
    return at;
  });
}

// data[..., indices[i...], ...] = updates[i...], indices along the axis.
std::vector<TensorType> infer_elements(const OpContext& ctx) {
  check_elements(ctx);
  require_same_type(ctx, 0, 2);
  check_reduction(ctx);
  require_shape(ctx, 2, ctx.input(1).shape);
  return {ctx.input(0)};
}

void build_elements(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const size_t axis = indexed_axis(ctx);
  build_scatter(ctx, b, in, out, [&](const Exprs& i) {
    Exprs at = i;
    at[axis] = position(in[1].at(i), in[0].shape[axis]);
    return at;
  });
}

}  // namespace

void register_scatter(Rows& rows) {
  struct Form {
    const char* name;
    int since, until;
    bool elements;
  };
  for (const Form& form : {Form{"Scatter", 9, 10, true}, Form{"ScatterElements", 11, 1000, true},
                           Form{"ScatterND", 11, 1000, false}})
    rows.push_back({.name = form.name,
                    .since = form.since,
                    .until = form.until,
                    .min_inputs = 3,
                    .max_inputs = 3,
                    .pattern = Pattern::opaque,
                    .params = "X I U",
                    .infer = form.elements ? infer_elements : infer_nd,
                    .build = form.elements ? build_elements : build_nd,
                    .note = "of several updates of one element the last is kept; indices out of range that "
                            "are known only at run time are clamped, or an error with --check-indices"});
}

}  // namespace nestor::ops
