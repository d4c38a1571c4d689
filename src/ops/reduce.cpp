// Reductions over axes: ReduceSum and its kin. What is done to each element before and to the result after
// the fold is part of the table's row; a result that is worked on further goes through a temporary, so that
// the fold stays a plain reduction block.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/ops/log_sum_exp.h"
#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

struct ReduceRow {
  const char* name;
  const char* temp;  // what the fold alone is called, where the result is worked on further
  int axes_input;    // the opset since when axes are an input
  ReduceOp op;
  const std::initializer_list<DType>* types;
  Expr (*before)(const Expr& x);
  Expr (*after)(const Expr& folded, const Expr& count);
};

Expr square(const Expr& x) {
  return x * x;
}
Expr magnitude(const Expr& x) {
  return is_float(x.dtype()) ? make::call(Intrinsic::abs, {x})
                             : make::select(lt(x, make::imm(0, x.type())), make::imm(0, x.type()) - x, x);
}

constexpr std::initializer_list<DType> kOrdered = {DType::f32, DType::f64, DType::i64,    DType::i32,
                                                   DType::i16, DType::i8,  DType::u64,    DType::u32,
                                                   DType::u16, DType::u8,  DType::boolean};

const ReduceRow kRows[] = {
    {"ReduceSum", "Sum", 13, ReduceOp::add, &kNumbers, nullptr, nullptr},
    {"ReduceMean", "Sum", 18, ReduceOp::add, &kNumbers, nullptr,
     [](const Expr& s, const Expr& n) { return divided_by_count(s, n); }},
    {"ReduceMax", "Max", 18, ReduceOp::max, &kOrdered, nullptr, nullptr},
    {"ReduceMin", "Min", 18, ReduceOp::min, &kOrdered, nullptr, nullptr},
    {"ReduceProd", "Prod", 18, ReduceOp::mul, &kNumbers, nullptr, nullptr},
    {"ReduceL1", "Sum", 18, ReduceOp::add, &kNumbers, magnitude, nullptr},
    {"ReduceL2", "Sum", 18, ReduceOp::add, &kFloats, square,
     [](const Expr& s, const Expr&) { return make::call(Intrinsic::sqrt, {s}); }},
    {"ReduceSumSquare", "Sum", 18, ReduceOp::add, &kNumbers, square, nullptr},
    {"ReduceLogSum", "Sum", 18, ReduceOp::add, &kFloats, nullptr,
     [](const Expr& s, const Expr&) { return make::call(Intrinsic::log, {s}); }},
};
// Built by build_reduce_log_sum_exp; the row says its types and axes.
const ReduceRow kLogSumExp = {"ReduceLogSumExp", "Sum", 18, ReduceOp::add, &kFloats, nullptr, nullptr};

// The axes to fold: those given, in either of the two ways that opsets have, or all of them where none is
// given and `noop_with_empty_axes` doesn't say otherwise.
Dims reduced_axes(const OpContext& ctx, const ReduceRow& row) {
  const size_t rank = ctx.input(0).shape.size();
  Dims axes;
  if (ctx.node().opset >= row.axes_input) {
    if (ctx.has_attr("axes"))
      ctx.fail("`axes` is an attribute, since opset " + std::to_string(row.axes_input) +
               " it must be the second input");
    axes = ctx.ints_from(1, "axes");
  } else {
    if (ctx.num_inputs() > 1)
      ctx.fail("`axes` is an input, before opset " + std::to_string(row.axes_input) +
               " it must be an attribute");
    axes = ctx.get_ints("axes", {});
  }
  if (axes.empty() && ctx.get_int("noop_with_empty_axes", 0) == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  return normal_axes(ctx, axes, rank);
}

std::vector<TensorType> infer(const OpContext& ctx, const ReduceRow& row) {
  require_type(ctx, 0, *row.types);
  const Dims axes = reduced_axes(ctx, row);
  const Dims& shape = ctx.input(0).shape;
  const bool keep = ctx.get_int("keepdims", 1) != 0;
  Dims out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!reduced || keep) out.push_back(reduced ? Dim(1) : shape[d]);
  }
  return {{ctx.input(0).dtype, out}};
}

// One fold, and where the row has an `after`, a temporary and a block behind it. Without axes to fold there
// is only the element-wise part.
void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out,
           const ReduceRow& row) {
  const BuildTensor& x = in[0];
  const bool truths = x.dtype() == DType::boolean;  // folded as bytes
  const RowView rows(x.shape, reduced_axes(ctx, row));
  const bool keep = ctx.get_int("keepdims", 1) != 0;
  const auto place = [&](const Exprs& o) { return keep ? rows.kept(o) : o; };
  const auto element = [&](const Exprs& o, const Exprs& r) {
    const Expr e = x.at(rows.merge(o, r));
    if (truths) return make::cast({DType::u8, 1}, e);
    return row.before ? row.before(e) : e;
  };
  const auto finish = [&](const Expr& e) {
    if (truths) return ne(e, make::imm(0, e.type()));
    return row.after ? row.after(e, rows.count().expr()) : e;
  };
  if (rows.inner().empty())
    return b.compute(out[0], rows.all(), [&](const Exprs& i) { return finish(element(i, {})); });
  if (!row.after && !truths) return b.reduce(out[0], rows.outer(), rows.inner(), row.op, element, {}, place);
  const BuildTensor folded = b.temp(row.temp, {truths ? DType::u8 : x.dtype(), rows.outer_shape()});
  b.reduce(folded, rows.outer(), rows.inner(), row.op, element);
  b.compute(
      out[0], rows.outer(), [&](const Exprs& o) { return finish(folded.at(o)); }, place);
}

// log(sum(exp(x))), with the row's maximum taken out so that exp doesn't overflow (unless it is infinite
// itself).
void build_reduce_log_sum_exp(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const RowView rows(x.shape, reduced_axes(ctx, kLogSumExp));
  const bool keep = ctx.get_int("keepdims", 1) != 0;
  const TensorType type = {x.dtype(), rows.outer_shape()};
  const BuildTensor m = b.temp("Max", type), shift = b.temp("Shift", type);
  const auto element = [&](const Exprs& o, const Exprs& r) { return x.at(rows.merge(o, r)); };
  b.reduce(m, rows.outer(), rows.inner(), ReduceOp::max, element);
  b.compute(shift, rows.outer(), [&](const Exprs& o) {
    const Expr finite = lt(make::call(Intrinsic::abs, {m.at(o)}), constant_like(x, HUGE_VAL));
    return make::select(finite, m.at(o), constant_like(x, 0));
  });
  const LogSumExp sum = build_log_sum_exp(b, rows, x, shift, Intrinsic::exp);
  b.compute(
      out[0], rows.outer(), [&](const Exprs& o) { return sum.at(o) + shift.at(o); },
      [&](const Exprs& o) { return keep ? rows.kept(o) : o; });
}

}  // namespace

void register_reduce(Rows& rows) {
  const auto add = [&](const ReduceRow& row, auto build) {
    rows.push_back({.name = row.name,
                    .since = 1,
                    .min_inputs = 1,
                    .max_inputs = 2,
                    .pattern = Pattern::reduction,
                    .infer = [&row](const OpContext& ctx) { return infer(ctx, row); },
                    .build = build,
                    .static_inputs = {1}});
  };
  for (const ReduceRow& row : kRows)
    add(row, [&row](const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
      build(ctx, b, in, out, row);
    });
  add(kLogSumExp, build_reduce_log_sum_exp);
}

}  // namespace nestor::ops
