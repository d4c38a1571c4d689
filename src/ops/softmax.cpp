// Softmax and LogSoftmax, by blocks that schedules can move to one row loop: Max, Exp, Sum, and the quotient.
// The maximum is subtracted first, so that exp never overflows. Until opset 12 the input counted as a matrix
// split at `axis`, so that every axis from there on is normalized together; since 13 it is that one axis.
#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

// The axes that are normalized together.
Dims softmax_axes(const OpContext& ctx) {
  const size_t rank = ctx.input(0).shape.size();
  const bool matrix = ctx.node().opset < 13;
  const int64_t axis = normal_axis(ctx, ctx.get_int("axis", matrix ? 1 : -1), rank);
  Dims axes = {axis};
  if (matrix)
    for (int64_t a = axis + 1; a < static_cast<int64_t>(rank); ++a) axes.push_back(a);
  return axes;
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  softmax_axes(ctx);
  return {ctx.input(0)};
}

BuildTensor row_maximum(FuncBuilder& b, const RowView& rows, const BuildTensor& x) {
  const BuildTensor m = b.temp("Max", {x.dtype(), rows.outer_shape()});
  b.reduce(m, rows.outer(), rows.inner(), ReduceOp::max,
           [&](const Exprs& o, const Exprs& r) { return x.at(rows.merge(o, r)); });
  return m;
}

void build_softmax(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const RowView rows(in[0].shape, softmax_axes(ctx));
  const SoftmaxParts parts = build_softmax_parts(ctx, b, in[0]);
  // One quotient a row: an element's would cost as much as its exponential.
  b.compute(out[0], rows.all(), [&](const Exprs& i) {
    return parts.exp.at(i) * (constant_like(in[0], 1) / parts.sum.at(rows.outer_of(i)));
  });
}

// x - max - log(sum(exp(x - max))): no exponential is kept, and log(0) can't come up, since the sum is at
// least 1.
void build_log_softmax(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const RowView rows(x.shape, softmax_axes(ctx));
  const BuildTensor m = row_maximum(b, rows, x);
  const BuildTensor sum = b.temp("Sum", {x.dtype(), rows.outer_shape()});
  b.reduce(sum, rows.outer(), rows.inner(), ReduceOp::add, [&](const Exprs& o, const Exprs& r) {
    return make::call(Intrinsic::exp, {x.at(rows.merge(o, r)) - m.at(o)});
  });
  const BuildTensor log_sum = b.temp("Log", {x.dtype(), rows.outer_shape()});
  b.compute(log_sum, rows.outer(), [&](const Exprs& o) { return make::call(Intrinsic::log, {sum.at(o)}); });
  b.compute(out[0], rows.all(), [&](const Exprs& i) {
    const Exprs row = rows.outer_of(i);
    return x.at(i) - m.at(row) - log_sum.at(row);
  });
}

}  // namespace

void register_softmax(Rows& rows) {
  for (const bool log : {false, true})
    rows.push_back({.name = log ? "LogSoftmax" : "Softmax",
                    .since = 1,
                    .min_inputs = 1,
                    .max_inputs = 1,
                    .pattern = Pattern::reduction,
                    .infer = infer,
                    .build = log ? build_log_softmax : build_softmax,
                    .note = "a row with NaN is NaN throughout"});
}

}  // namespace nestor::ops

namespace nestor {

SoftmaxParts build_softmax_parts(const OpContext& ctx, FuncBuilder& b, const BuildTensor& x) {
  const ops::RowView rows(x.shape, ops::softmax_axes(ctx));
  const BuildTensor m = ops::row_maximum(b, rows, x);
  SoftmaxParts out;
  out.exp = b.temp("Exp", {x.dtype(), x.shape});
  b.compute(out.exp, rows.all(), [&](const ops::Exprs& i) {
    return make::call(Intrinsic::exp, {x.at(i) - m.at(rows.outer_of(i))});
  });
  out.sum = b.temp("Sum", {x.dtype(), rows.outer_shape()});
  b.reduce(out.sum, rows.outer(), rows.inner(), ReduceOp::add,
           [&](const ops::Exprs& o, const ops::Exprs& r) { return out.exp.at(rows.merge(o, r)); });
  return out;
}

}  // namespace nestor
