// OneHot: along a new axis, `values[1]` where its index is what the tensor of indices says, else `values[0]`.
// A negative index counts from the end (at every opset, as ONNX Runtime has it); one out of range, or NaN, is
// nowhere.
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

Dim depth_of(const OpContext& ctx) {
  require_type(ctx, 1, kNumbers);
  if (const std::vector<Expr> depth = ctx.elements(1); depth.size() == 1 && is_int(depth[0].dtype()))
    if (const Dim d = ctx.dim(depth[0]); !d.known()) return d;
  const Tensor* depth = ctx.constant(1);
  if (!depth) ctx.fail_unknown(1, "input 1 (depth)");
  const double value = depth->size() == 1 ? depth->get(0) : 0;
  if (!(value >= 1 && value <= static_cast<double>(kMostElements)))
    ctx.fail("input 1 (depth) is not one number of at least 1");
  return static_cast<int64_t>(value);
}

size_t new_axis(const OpContext& ctx) {
  return static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", -1), ctx.input(0).shape.size() + 1));
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  if (!must_be(ctx.input(2).shape, {2}))
    ctx.fail("input 2 is " + to_string(ctx.input(2)) + ", it must have 2 elements: off and on");
  Dims out = ctx.input(0).shape;
  out.insert(out.begin() + static_cast<int64_t>(new_axis(ctx)), depth_of(ctx));
  return {{ctx.input(2).dtype, out}};
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const size_t axis = new_axis(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at = i;
    at.erase(at.begin() + static_cast<int64_t>(axis));
    const Expr given = in[0].at(at), index = make::cast({DType::i64, 1}, given);
    const Expr from_start = make::select(lt(index, 0), index + depth_of(ctx).expr(), index);
    const Expr one = make::select(eq(from_start, i[axis]), in[2](1), in[2](0));
    if (!is_float(given.dtype())) return one;
    return make::select(make::call(Intrinsic::is_nan, {given}), in[2](0), one);
  });
}

}  // namespace

void register_one_hot(Rows& rows) {
  rows.push_back({.name = "OneHot",
                  .since = 9,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .pattern = Pattern::injective,
                  .params = "I D V",
                  .infer = infer,
                  .build = build,
                  .static_inputs = {1}});
}

}  // namespace nestor::ops
