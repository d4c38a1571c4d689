// ArgMax and ArgMin: where along an axis the largest or smallest element stands. Two folds over a row, which
// schedules keep in the cache: Best, and Index, the first place (or the last, `select_last_index`) that holds
// it. Both are exact, so lanes may take them in any order.
//
// NaN is the extremum of a row that holds one, as in NumPy, which ONNX refers to: then Best is NaN, which
// equals nothing, and the places that count are those of NaN.
#include <cmath>
#include <limits>

#include "src/ops/common.h"
#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

int64_t axis_of(const OpContext& ctx) {
  return normal_axis(ctx, ctx.get_int("axis", 0), ctx.input(0).shape.size());
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  Dims shape = ctx.input(0).shape;
  const auto axis = static_cast<size_t>(axis_of(ctx));
  if (!must_be_at_most(1, shape[axis], "an extremum is one of the axis' elements"))
    ctx.fail("the axis has no elements, of which one would be the extremum");
  if (shape[axis] > std::numeric_limits<int32_t>::max() / 2) ctx.fail("the axis has more than 2^30 elements");
  if (ctx.node().opset < 12 && ctx.has_attr("select_last_index"))
    ctx.fail("`select_last_index` is there since opset 12");
  if (ctx.get_int("keepdims", 1) != 0)
    shape[axis] = 1;
  else
    shape.erase(shape.begin() + static_cast<long>(axis));
  return {{DType::i64, shape}};
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out, bool largest) {
  const BuildTensor& x = in[0];
  const RowView rows(x.shape, {axis_of(ctx)});
  const bool last = ctx.get_int("select_last_index", 0) != 0, keep = ctx.get_int("keepdims", 1) != 0;
  const Type place_type{DType::i32, 1};
  const auto element = [&](const Exprs& o, const Exprs& r) { return x.at(rows.merge(o, r)); };

  const BuildTensor best = b.temp("Best", {x.dtype(), rows.outer_shape()});
  b.reduce(best, rows.outer(), rows.inner(), largest ? ReduceOp::max : ReduceOp::min, element);
  const Expr none = make::cast(place_type, last ? Expr(-1) : rows.count().expr());
  const BuildTensor index = b.temp("Index", {DType::i32, rows.outer_shape()});
  b.reduce(index, rows.outer(), rows.inner(), last ? ReduceOp::max : ReduceOp::min,
           [&](const Exprs& o, const Exprs& r) {
             const Expr e = element(o, r), at = make::cast(place_type, r[0]);
             Expr found = eq(e, best.at(o));
             if (is_float(x.dtype())) found = logical_or(found, make::call(Intrinsic::is_nan, {e}));
             return make::select(found, at, none);
           });
  b.compute(
      out[0], rows.outer(),
      [&](const Exprs& o) {
        return make::cast(Type{DType::i64, 1}, index.at(o));
      },
      [&](const Exprs& o) { return keep ? rows.kept(o) : o; });
}

}  // namespace

void register_arg_extremum(Rows& rows) {
  for (const bool largest : {true, false})
    rows.push_back(
        {.name = largest ? "ArgMax" : "ArgMin",
         .since = 1,
         .min_inputs = 1,
         .max_inputs = 1,
         .pattern = Pattern::reduction,
         .infer = infer,
         .build = [largest](const OpContext& ctx, FuncBuilder& b, const Tensors& in,
                            const Tensors& out) { build(ctx, b, in, out, largest); },
         .note = "the first NaN of a row is its extremum, or the last one if the last index is selected"});
}

}  // namespace nestor::ops
