// Softmax and LogSoftmax, by blocks that schedules can move to one row loop: Max, Exp, Sum, and the quotient.
// The maximum is subtracted first, so that exp never overflows. Until opset 12 the input counted as a matrix
// split at `axis`, so that every axis from there on is normalized together; since 13 it is that one axis.
#include <cmath>
#include <limits>

#include "src/ops/log_sum_exp.h"
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

// exp(x - m) of an m that is no less than x.
Expr exp_below(const Expr& x, const Expr& m) {
  return make::call(Intrinsic::exp_nonpositive, {x - m});
}

BuildTensor row_maximum(FuncBuilder& b, const RowView& rows, const BuildTensor& x) {
  const BuildTensor m = b.temp("Max", {x.dtype(), rows.outer_shape()});
  b.reduce(m, rows.outer(), rows.inner(), ReduceOp::max,
           [&](const Exprs& o, const Exprs& r) { return x.at(rows.merge(o, r)); });
  return m;
}

// A row that long has left the second-level cache before it is read again. Its maxima and the sums of its
// exponentials come in one pass, by pieces that stay in the first-level cache: each piece has those of
// kLanes columns of kSteps elements, whatever the width of a vector. A piece's sums relate to its own maxima
// and are scaled to the row's when that is known (Milakov and Gimelshein, Online normalizer calculation for
// softmax, 2018). The second pass computes the exponentials again, which takes less than to write and read
// them. A maximum is finite, so that elements of -inf count as nothing; a row of them alone is NaN as always.
constexpr int64_t kLongRow = 1 << 18, kSteps = 32, kLanes = 16;

bool has_long_rows(const RowView& rows) {
  return rows.inner().size() == 1 && rows.inner()[0].name == rows.all().back().name && rows.count().known() &&
         rows.count() >= kLongRow;
}

void build_long_softmax(FuncBuilder& b, const RowView& rows, const BuildTensor& x, const BuildTensor& out) {
  const int64_t n = rows.count(), piece = kSteps * kLanes, pieces = ceil_div(n, piece);
  const bool ragged = n % piece != 0;
  const Expr least = constant_like(x, x.dtype() == DType::f64 ? std::numeric_limits<double>::lowest()
                                                              : std::numeric_limits<float>::lowest());
  std::vector<Axis> parts = rows.outer(), within = {{"p", pieces}, {"l", kLanes}};
  parts.insert(parts.end(), within.begin(), within.end());
  Dims shape = rows.outer_shape();
  shape.insert(shape.end(), {pieces, kLanes});
  // The element of step k in column l of piece p, `otherwise` behind the row's end.
  const auto element = [&](const Exprs& o, const Expr& k, const std::function<Expr(const Expr&)>& of,
                           const Expr& otherwise) {
    const Expr at = o[o.size() - 2] * piece + k * kLanes + o.back();
    const Expr value = of(x.at(rows.merge(Exprs(o.begin(), o.end() - 2), {at})));
    return ragged ? make::select(lt(at, n), value, otherwise) : value;
  };
  const BuildTensor part_max = b.temp("PartMax", {x.dtype(), shape});
  b.reduce(part_max, parts, {{"k", kSteps}}, ReduceOp::max, [&](const Exprs& o, const Exprs& r) {
    return element(
        o, r[0], [](const Expr& e) { return e; }, constant_like(x, -INFINITY));
  });
  const auto finite = [&](const Expr& m) { return max(m, least); };
  const BuildTensor part_sum = b.temp("PartSum", {x.dtype(), shape});
  b.reduce(part_sum, parts, {{"k", kSteps}}, ReduceOp::add, [&](const Exprs& o, const Exprs& r) {
    const auto distance = [&](const Expr& e) { return exp_below(e, finite(part_max.at(o))); };
    return element(o, r[0], distance, constant_like(x, 0));
  });
  const auto all_of = [](const Exprs& o, const Exprs& r) {
    Exprs at = o;
    at.insert(at.end(), r.begin(), r.end());
    return at;
  };
  const BuildTensor m = b.temp("Max", {x.dtype(), rows.outer_shape()});
  b.reduce(m, rows.outer(), within, ReduceOp::max,
           [&](const Exprs& o, const Exprs& r) { return finite(part_max.at(all_of(o, r))); });
  const BuildTensor sum = b.temp("Sum", {x.dtype(), rows.outer_shape()});
  b.reduce(sum, rows.outer(), within, ReduceOp::add, [&](const Exprs& o, const Exprs& r) {
    const Exprs at = all_of(o, r);
    return part_sum.at(at) * exp_below(finite(part_max.at(at)), m.at(o));
  });
  b.compute(out, rows.all(), [&](const Exprs& i) {
    const Exprs row = rows.outer_of(i);
    return exp_below(x.at(i), m.at(row)) * (constant_like(x, 1) / sum.at(row));
  });
}

void build_softmax(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const RowView rows(in[0].shape, softmax_axes(ctx));
  if (has_long_rows(rows)) return build_long_softmax(b, rows, in[0], out[0]);
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
  const LogSumExp sum = build_log_sum_exp(b, rows, x, m, Intrinsic::exp_nonpositive);
  const BuildTensor log_sum = b.temp("Log", {x.dtype(), rows.outer_shape()});
  b.compute(log_sum, rows.outer(), [&](const Exprs& o) { return sum.at(o); });
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
  b.compute(out.exp, rows.all(),
            [&](const ops::Exprs& i) { return ops::exp_below(x.at(i), m.at(rows.outer_of(i))); });
  out.sum = b.temp("Sum", {x.dtype(), rows.outer_shape()});
  b.reduce(out.sum, rows.outer(), rows.inner(), ReduceOp::add,
           [&](const ops::Exprs& o, const ops::Exprs& r) { return out.exp.at(rows.merge(o, r)); });
  return out;
}

}  // namespace nestor
