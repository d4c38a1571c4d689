// Normalization: by given statistics (BatchNormalization), by those of each row (LayerNormalization,
// RMSNormalization, InstanceNormalization, GroupNormalization, LpNormalization), by neighbouring channels
// (LRN). Statistics take two passes, the mean and then the squared distances from it: the one-pass formula
// E[x*x] - E[x]^2 cancels.
#include <algorithm>

#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

Expr reciprocal_root(const Expr& variance, double epsilon) {
  const Type t = variance.type();
  return make::imm(1, t) / make::call(Intrinsic::sqrt, {variance + make::imm(epsilon, t)});
}

double epsilon_of(const OpContext& ctx) {
  return ctx.get_float("epsilon", 1e-5);
}

// Statistics and scales of channels: [C], of the data's type.
void require_channels(const OpContext& ctx, int i) {
  require_same_type(ctx, 0, i);
  const Dims expected = {ctx.input(0).shape[1]};
  if (ctx.input(i).shape != expected)
    ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", it must be " +
             to_string(ctx.input(0).dtype, expected) + ": one value per channel");
}

// ---- BatchNormalization

std::vector<TensorType> infer_batch(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  epsilon_of(ctx);
  const int opset = ctx.node().opset;
  const char* hint = "export the model for inference";
  if (opset < 7 && ctx.get_int("is_test", 0) == 0) ctx.fail("`is_test` is 0: training isn't supported", hint);
  // Until opset 13 it is the number of outputs that says so.
  const bool trains = opset < 14 && ctx.node().outputs.size() > 1;
  for (int i = 1; i < 5; ++i)
    if (trains || ctx.has_output(i))
      ctx.fail("running statistics are wanted as outputs: training isn't supported", hint);
  if (opset < 9 && ctx.get_int("spatial", 1) == 0)
    ctx.fail("`spatial` = 0 isn't supported", "statistics per channel, `spatial` = 1");
  if (ctx.input(0).shape.size() < 2)
    ctx.fail("the input is " + to_string(ctx.input(0)) + ", it has no channels");
  for (int i = 1; i < 5; ++i) require_channels(ctx, i);
  if (opset < 14) return {ctx.input(0)};
  return {ctx.input(0), ctx.input(3), ctx.input(4)};
}

// (x - mean) * Scale + shift with Scale = scale / sqrt(var + epsilon), once per channel. The shorter x *
// Scale + (shift - mean * Scale) would cancel where the mean is large against the deviation.
void build_batch(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  NESTOR_CHECK(ctx.get_int("training_mode", 0) == 0) << "statistics of the batch (spell_out_batch_norm)";
  const BuildTensor &x = in[0], &scale = in[1], &shift = in[2], &mean = in[3], &var = in[4];
  const double epsilon = epsilon_of(ctx);
  const int64_t channels = x.shape[1];
  const BuildTensor factor = b.temp("Scale", {x.dtype(), {channels}});
  b.compute(factor, {{"c", channels}},
            [&](const Exprs& c) { return scale.at(c) * reciprocal_root(var.at(c), epsilon); });
  b.compute(out[0], axes_of(x.shape),
            [&](const Exprs& i) { return (x.at(i) - mean(i[1])) * factor(i[1]) + shift(i[1]); });
}

// ---- By rows

struct Statistics {
  BuildTensor mean, inverse;  // inverse standard deviation; one element per row
};

// Blocks Sum, Mean, Squares and InvStd over rows: `outer` counts them, `inner` their elements.
Statistics row_statistics(FuncBuilder& b, const std::vector<Axis>& outer, const std::vector<Axis>& inner,
                          const FuncBuilder::ReduceBody& element, DType dtype, double epsilon) {
  TensorType type = {dtype, {}};
  for (const Axis& a : outer) type.shape.push_back(a.extent);
  int64_t count = 1;
  for (const Axis& a : inner) count *= a.extent;
  const BuildTensor sum = b.temp("Sum", type);
  b.reduce(sum, outer, inner, ReduceOp::add, element);
  const BuildTensor mean = b.temp("Mean", type);
  b.compute(mean, outer, [&](const Exprs& o) { return divided_by_count(sum.at(o), count); });
  const BuildTensor squares = b.temp("Squares", type);
  b.reduce(squares, outer, inner, ReduceOp::add, [&](const Exprs& o, const Exprs& r) {
    const Expr distance = element(o, r) - mean.at(o);
    return distance * distance;
  });
  const BuildTensor inverse = b.temp("InvStd", type);
  b.compute(inverse, outer,
            [&](const Exprs& o) { return reciprocal_root(divided_by_count(squares.at(o), count), epsilon); });
  return {mean, inverse};
}

Statistics row_statistics(FuncBuilder& b, const RowView& rows, const BuildTensor& x, double epsilon) {
  const auto element = [&](const Exprs& o, const Exprs& r) { return x.at(rows.merge(o, r)); };
  return row_statistics(b, rows.outer(), rows.inner(), element, x.dtype(), epsilon);
}

// Layer and RMS normalization take `axis` and all axes behind it for one row.
Dims layer_axes(const OpContext& ctx) {
  const size_t rank = ctx.input(0).shape.size();
  Dims axes;
  for (int64_t a = normal_axis(ctx, ctx.get_int("axis", -1), rank); a < static_cast<int64_t>(rank); ++a)
    axes.push_back(a);
  return axes;
}

void require_layer_inputs(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  epsilon_of(ctx);
  const Dims& shape = ctx.input(0).shape;
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    require_same_type(ctx, 0, i);
    if (broadcast_shapes(ctx, shape, ctx.input(i).shape) != shape)
      ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) +
               ", it doesn't broadcast to " + to_string(ctx.input(0)));
  }
}

std::vector<TensorType> infer_layer(const OpContext& ctx) {
  require_layer_inputs(ctx);
  Dims statistics = ctx.input(0).shape;
  for (int64_t a : layer_axes(ctx)) statistics[static_cast<size_t>(a)] = 1;
  return {ctx.input(0), {DType::f32, statistics}, {DType::f32, statistics}};
}

void build_layer(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const RowView rows(x.shape, layer_axes(ctx));
  const Statistics s = row_statistics(b, rows, x, epsilon_of(ctx));
  const bool has_shift = in.size() > 2 && in[2];
  b.compute(out[0], rows.all(), [&](const Exprs& i) {
    const Exprs row = rows.outer_of(i);
    const Expr y = (x.at(i) - s.mean.at(row)) * s.inverse.at(row) * read_broadcast(in[1], i);
    return has_shift ? y + read_broadcast(in[2], i) : y;
  });
  const auto emit = [&](size_t k, const BuildTensor& t) {
    if (out.size() <= k || !out[k]) return;
    b.compute(
        out[k], rows.outer(),
        [&](const Exprs& o) {
          return make::cast({DType::f32, 1}, t.at(o));
        },
        [&](const Exprs& o) { return rows.kept(o); });
  };
  emit(1, s.mean);
  emit(2, s.inverse);
}

std::vector<TensorType> infer_rms(const OpContext& ctx) {
  require_layer_inputs(ctx);
  layer_axes(ctx);
  return {ctx.input(0)};
}

// y = x / sqrt(mean of x * x + epsilon) * scale
void build_rms(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const RowView rows(x.shape, layer_axes(ctx));
  const TensorType type = {x.dtype(), rows.outer_shape()};
  const BuildTensor squares = b.temp("Squares", type);
  b.reduce(squares, rows.outer(), rows.inner(), ReduceOp::add, [&](const Exprs& o, const Exprs& r) {
    const Expr e = x.at(rows.merge(o, r));
    return e * e;
  });
  const BuildTensor inverse = b.temp("InvRms", type);
  b.compute(inverse, rows.outer(), [&](const Exprs& o) {
    return reciprocal_root(divided_by_count(squares.at(o), rows.count()), epsilon_of(ctx));
  });
  b.compute(out[0], rows.all(), [&](const Exprs& i) {
    return x.at(i) * inverse.at(rows.outer_of(i)) * read_broadcast(in[1], i);
  });
}

std::vector<TensorType> infer_instance(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  if (ctx.input(0).shape.size() < 3)
    ctx.fail("the input is " + to_string(ctx.input(0)) + ", it needs batch, channel and spatial dimensions");
  epsilon_of(ctx);
  require_channels(ctx, 1);
  require_channels(ctx, 2);
  return {ctx.input(0)};
}

void build_instance(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  Dims spatial;
  for (int64_t a = 2; a < x.rank(); ++a) spatial.push_back(a);
  const RowView rows(x.shape, spatial);
  const Statistics s = row_statistics(b, rows, x, epsilon_of(ctx));
  b.compute(out[0], rows.all(), [&](const Exprs& i) {
    const Exprs row = rows.outer_of(i);
    return (x.at(i) - s.mean.at(row)) * s.inverse.at(row) * in[1](i[1]) + in[2](i[1]);
  });
}

// Groups of channels: by opset 18 with a scale and a shift for each group, since 21 for each channel.
std::vector<TensorType> infer_group(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  epsilon_of(ctx);
  const Dims& x = ctx.input(0).shape;
  if (x.size() < 2) ctx.fail("the input is " + to_string(ctx.input(0)) + ", it has no channels");
  const int64_t groups = ctx.get_int("num_groups", 0);
  if (groups < 1 || x[1] % groups != 0)
    ctx.fail("`num_groups` is " + std::to_string(groups) + ", it must divide the " + std::to_string(x[1]) +
             " channels");
  const Dims expected = {ctx.node().opset < 21 ? groups : x[1]};
  for (int i = 1; i < 3; ++i) {
    require_same_type(ctx, 0, i);
    if (ctx.input(i).shape != expected)
      ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", it must be " +
               to_string(ctx.input(0).dtype, expected));
  }
  return {ctx.input(0)};
}

// Rows are n g, their elements c h w: channel c of a group is channel g * (C / G) + c of the input.
void build_group(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const int64_t groups = ctx.get_int("num_groups", 1), channels = x.shape[1] / groups;
  Dims split = {x.shape[0], groups, channels};
  split.insert(split.end(), x.shape.begin() + 2, x.shape.end());
  const auto joined = [&](const Exprs& i) {
    Exprs at = {i[0], i[1] * Expr(channels) + i[2]};
    at.insert(at.end(), i.begin() + 3, i.end());
    return at;
  };
  std::vector<Axis> axes = {{"n", split[0]}, {"g", groups}, {"c", channels}};
  const std::vector<Axis> image = axes_of(x.shape);
  axes.insert(axes.end(), image.begin() + 2, image.end());
  const std::vector<Axis> outer(axes.begin(), axes.begin() + 2), inner(axes.begin() + 2, axes.end());
  const auto element = [&](const Exprs& o, const Exprs& r) {
    Exprs all = o;
    all.insert(all.end(), r.begin(), r.end());
    return x.at(joined(all));
  };
  const Statistics s = row_statistics(b, outer, inner, element, x.dtype(), epsilon_of(ctx));
  const bool by_group = ctx.node().opset < 21;
  b.compute(
      out[0], axes,
      [&](const Exprs& i) {
        const Exprs row(i.begin(), i.begin() + 2), at = joined(i);
        const Expr& place = by_group ? i[1] : at[1];
        return (x.at(at) - s.mean.at(row)) * s.inverse.at(row) * in[1](place) + in[2](place);
      },
      joined);
}

// ---- LpNormalization

std::vector<TensorType> infer_lp(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  normal_axis(ctx, ctx.get_int("axis", -1), ctx.input(0).shape.size());
  const int64_t p = ctx.get_int("p", 2);
  if (p != 1 && p != 2) ctx.fail("`p` is " + std::to_string(p) + ", it must be 1 or 2");
  return {ctx.input(0)};
}

// y = x / norm of its row, or 0 where that is 0.
void build_lp(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const RowView rows(x.shape, {normal_axis(ctx, ctx.get_int("axis", -1), x.shape.size())});
  const bool squares = ctx.get_int("p", 2) == 2;
  const TensorType type = {x.dtype(), rows.outer_shape()};
  const BuildTensor sum = b.temp(squares ? "Squares" : "Sum", type);
  b.reduce(sum, rows.outer(), rows.inner(), ReduceOp::add, [&](const Exprs& o, const Exprs& r) {
    const Expr e = x.at(rows.merge(o, r));
    return squares ? e * e : make::call(Intrinsic::abs, {e});
  });
  // A root is never so small that its inverse is infinite.
  const BuildTensor norm = b.temp(squares ? "Inverse" : "Norm", type);
  b.compute(norm, rows.outer(), [&](const Exprs& o) {
    const Expr zero = constant_like(x, 0), one = constant_like(x, 1);
    const Expr n = make::select(eq(sum.at(o), zero), one, sum.at(o));
    return squares ? one / make::call(Intrinsic::sqrt, {n}) : n;
  });
  b.compute(out[0], rows.all(), [&](const Exprs& i) {
    const Expr n = norm.at(rows.outer_of(i));
    return squares ? x.at(i) * n : x.at(i) / n;
  });
}

// ---- LRN

std::vector<TensorType> infer_lrn(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  if (ctx.input(0).shape.size() < 3)
    ctx.fail("the input is " + to_string(ctx.input(0)) + ", it needs batch, channel and spatial dimensions");
  for (const char* name : {"alpha", "beta", "bias"}) ctx.get_float(name, 1);
  if (ctx.get_int("size", 0) < 1) ctx.fail("`size` is missing or less than 1");
  return {ctx.input(0)};
}

// No channel has more neighbours than there are channels: a longer sum would add zeros.
// y = x / (bias + alpha / size * (sum of squares over `size` channels around))^beta
void build_lrn(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const int64_t size = ctx.get_int("size", 1), channels = x.shape[1],
                most = std::max<int64_t>(channels - 1, 0), before = std::min((size - 1) / 2, most),
                behind = std::min(size / 2, most);
  const std::vector<Axis> axes = axes_of(x.shape);
  const BuildTensor sum = b.temp("Sum", {x.dtype(), x.shape});
  b.reduce(sum, axes, {{"k", before + 1 + behind}}, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    Exprs at = i;
    at[1] = i[1] + r[0] - Expr(before);
    return make::select(logical_and(le(0, at[1]), lt(at[1], channels)), x.at(at) * x.at(at),
                        constant_like(x, 0));
  });
  b.compute(out[0], axes, [&](const Exprs& i) {
    const double factor = ctx.get_float("alpha", 1e-4) / static_cast<double>(size);
    const Expr base = constant_like(x, ctx.get_float("bias", 1)) + constant_like(x, factor) * sum.at(i);
    return x.at(i) / make::call(Intrinsic::pow, {base, constant_like(x, ctx.get_float("beta", 0.75))});
  });
}

}  // namespace

void register_normalization(Rows& rows) {
  rows.push_back({.name = "BatchNormalization",
                  .since = 1,
                  .min_inputs = 5,
                  .max_inputs = 5,
                  .pattern = Pattern::elementwise,
                  .params = "X S B M V",
                  .infer = infer_batch,
                  .build = build_batch,
                  .note = "running statistics as outputs aren't supported"});
  rows.push_back({.name = "LayerNormalization",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::reduction,
                  .params = "X S B",
                  .infer = infer_layer,
                  .build = build_layer});
  rows.push_back({.name = "RMSNormalization",
                  .since = 23,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::reduction,
                  .params = "X S",
                  .infer = infer_rms,
                  .build = build_rms});
  rows.push_back({.name = "InstanceNormalization",
                  .since = 1,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .pattern = Pattern::reduction,
                  .params = "X S B",
                  .infer = infer_instance,
                  .build = build_instance});
  rows.push_back({.name = "GroupNormalization",
                  .since = 18,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .pattern = Pattern::reduction,
                  .params = "X S B",
                  .infer = infer_group,
                  .build = build_group});
  rows.push_back({.name = "LpNormalization",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::reduction,
                  .infer = infer_lp,
                  .build = build_lp,
                  .note = "a row of zeros gives zeros"});
  rows.push_back({.name = "LRN",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::reduction,
                  .infer = infer_lrn,
                  .build = build_lrn});
}

}  // namespace nestor::ops
