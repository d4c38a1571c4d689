// Pooling. MaxPool folds the window with max over an input padded by the lowest value. AveragePool is a sum
// block and a block that divides: by a constant where every window is full, else by the number of elements
// that the window covers.
#include <algorithm>

#include "src/ops/registry.h"
#include "src/ops/window.h"

namespace nestor::ops {

namespace {

// Pooling's kernel is an attribute, not a tensor's shape.
Window pool_window(const OpContext& ctx) {
  const Dims& x = ctx.input(0).shape;
  if (x.size() < 3 || x.size() > 5)
    ctx.fail("the input is " + to_string(ctx.input(0)) + "; one to three spatial dimensions are supported");
  if (!ctx.has_attr("kernel_shape")) ctx.fail("the attribute `kernel_shape` is missing");
  return read_window(ctx, ctx.get_ints("kernel_shape", {}));
}

Dims pooled_shape(const OpContext& ctx, const Window& w) {
  Dims out = {ctx.input(0).shape[0], ctx.input(0).shape[1]};
  out.insert(out.end(), w.output.begin(), w.output.end());
  return out;
}

std::vector<TensorType> infer_max_pool(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  const Dims shape = pooled_shape(ctx, pool_window(ctx));
  return {{ctx.input(0).dtype, shape}, {DType::i64, shape}};  // the second is spelled out, by MaxPoolIndices
}

std::vector<TensorType> infer_max_pool_indices(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  const int64_t order = ctx.get_int("storage_order", 0);
  if (order != 0 && order != 1) ctx.fail("`storage_order` must be 0 or 1");
  const Dims shape = pooled_shape(ctx, pool_window(ctx));
  require_shape(ctx, 1, shape);
  return {{DType::i64, shape}};
}

std::vector<TensorType> infer_average_pool(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  ctx.get_int("count_include_pad", 0);
  return {{ctx.input(0).dtype, pooled_shape(ctx, pool_window(ctx))}};
}

// out[n,c,y,x] op= x[n,c,y*stride+r*dilation,...]
void fold_windows(FuncBuilder& b, const Window& w, const BuildTensor& x, const BuildTensor& out,
                  ReduceOp op) {
  std::vector<Axis> spatial = {{"n", x.shape[0]}, {"c", x.shape[1]}};
  for (const Axis& a : output_axes(w)) spatial.push_back(a);
  b.reduce(out, spatial, kernel_axes(w), op, [&](const Exprs& i, const Exprs& r) {
    Exprs at = {i[0], i[1]};
    for (size_t d = 0; d < w.rank(); ++d) at.push_back(input_index(w, d, i[d + 2], r[d]));
    return x.at(at);
  });
}

// The first place, counted in the whole tensor, of an element that is the window's largest, or NaN.
void find_maxima(const OpContext& ctx, FuncBuilder& b, const BuildTensor& x, const BuildTensor& best,
                 const BuildTensor& out) {
  const Window w = pool_window(ctx);
  const bool first_dimension_first = ctx.get_int("storage_order", 0) == 1;
  const Expr nowhere = product(x.shape).expr();
  const Type type{DType::i64, 1};
  std::vector<Axis> spatial = {{"n", x.shape[0]}, {"c", x.shape[1]}};
  for (const Axis& a : output_axes(w)) spatial.push_back(a);
  b.reduce(out, spatial, kernel_axes(w), ReduceOp::min, [&](const Exprs& i, const Exprs& r) {
    Exprs at = {i[0], i[1]}, inner;
    Expr inside = make::imm(1, {DType::boolean, 1});
    for (size_t d = 0; d < w.rank(); ++d) {
      const Expr k = input_index(w, d, i[d + 2], r[d]) - w.pad_begin[d].expr();
      inside = logical_and(inside, logical_and(le(0, k), lt(k, w.input[d])));
      inner.push_back(k);
      at.push_back(min(max(k, 0), w.input[d] - 1));
    }
    Expr place = 0;
    for (size_t d = 0; d < w.rank(); ++d) {
      const size_t from = first_dimension_first ? w.rank() - 1 - d : d;
      place = place * w.input[from].expr() + inner[from];
    }
    place = (i[0] * x.shape[1].expr() + i[1]) * product(w.input).expr() + place;
    const Expr e = x.at(at);
    Expr found = eq(e, best.at(i));
    if (is_float(x.dtype())) found = logical_or(found, make::call(Intrinsic::is_nan, {e}));
    return make::select(logical_and(inside, found), make::cast(type, place), make::cast(type, nowhere));
  });
}

void build_max_pool(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Window w = pool_window(ctx);
  const Expr lowest = identity_of(ReduceOp::max, {in[0].dtype(), 1});
  fold_windows(b, w, padded_input(b, w, in[0], lowest), out[0], ReduceOp::max);
  if (out.size() > 1 && out[1]) find_maxima(ctx, b, in[0], out[0], out[1]);
}

// How many taps of the window at output index `o` lie in [lo, hi) of the padded input. Constant where it is
// the same for every o.
Expr taps_inside(const Window& w, size_t d, const Expr& o, const Dim& lo, const Dim& hi) {
  const Expr base = o * w.stride[d].expr();
  const auto first_at_least = [&](const Dim& bound) {  // the first tap at or behind the bound
    return ((bound + w.dilation[d] - 1).expr() - base) / w.dilation[d].expr();
  };
  Expr end = w.kernel[d];
  if (!surely_le(w.reach(d), hi)) end = min(end, first_at_least(hi));
  return lo > 0 ? max(0, end - max(0, first_at_least(lo))) : end;
}

void build_average_pool(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Window w = pool_window(ctx);
  const bool include_pad = ctx.get_int("count_include_pad", 0) != 0;
  const BuildTensor sum = b.temp("Sum", {out[0].dtype(), out[0].shape});
  fold_windows(b, w, padded_input(b, w, in[0], constant_like(in[0], 0)), sum, ReduceOp::add);
  std::vector<Axis> axes = {{"n", out[0].shape[0]}, {"c", out[0].shape[1]}};
  for (const Axis& a : output_axes(w)) axes.push_back(a);
  b.compute(out[0], axes, [&](const Exprs& i) {
    Expr count = 1;
    for (size_t d = 0; d < w.rank(); ++d) {
      const Dim lo = include_pad ? Dim(0) : w.pad_begin[d];
      const Dim hi = w.pad_begin[d] + w.input[d] + (include_pad ? w.pad_end[d] : Dim(0));
      count = count * taps_inside(w, d, i[d + 2], lo, hi);
    }
    return divided_by_count(sum.at(i), count);
  });
}

// ---- Norms of windows: (sum of |x|^p)^(1/p)

int64_t read_p(const OpContext& ctx) {
  const int64_t p = ctx.get_int("p", 2);
  if (p < 1) ctx.fail("`p` is " + std::to_string(p) + ", it must be at least 1");
  return p;
}
Expr to_power(const Expr& x, double p) {
  if (p == 1) return x;
  if (p == 2) return x * x;
  if (p == 0.5) return make::call(Intrinsic::sqrt, {x});
  return make::call(Intrinsic::pow, {x, make::imm(p, x.type())});
}

std::vector<TensorType> infer_lp_pool(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  read_p(ctx);
  return {{ctx.input(0).dtype, pooled_shape(ctx, pool_window(ctx))}};
}

void build_lp_pool(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Window w = pool_window(ctx);
  const auto p = static_cast<double>(read_p(ctx));
  const BuildTensor powers = padded_copy(b, w, in[0], constant_like(in[0], 0), [&](const Expr& x) {
    return to_power(make::call(Intrinsic::abs, {x}), p);
  });
  const BuildTensor sum = b.temp("Sum", {out[0].dtype(), out[0].shape});
  fold_windows(b, w, powers, sum, ReduceOp::add);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) { return to_power(sum.at(i), 1 / p); });
}

void build_global_lp_pool(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& x = in[0];
  const auto p = static_cast<double>(read_p(ctx));
  const std::vector<Axis> axes = axes_of(x.shape), outer = {{"n", x.shape[0]}, {"c", x.shape[1]}};
  const BuildTensor sum = b.temp("Sum", {x.dtype(), {x.shape[0], x.shape[1]}});
  b.reduce(sum, outer, {axes.begin() + 2, axes.end()}, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    Exprs at = {i[0], i[1]};
    at.insert(at.end(), r.begin(), r.end());
    return to_power(make::call(Intrinsic::abs, {x.at(at)}), p);
  });
  b.compute(
      out[0], outer, [&](const Exprs& i) { return to_power(sum.at(i), 1 / p); },
      [&](const Exprs& i) {
        Exprs at(x.shape.size(), Expr(0));
        std::copy(i.begin(), i.end(), at.begin());
        return at;
      });
}

// ---- Global pooling

std::vector<TensorType> infer_global(const OpContext& ctx, const std::initializer_list<DType>& types) {
  require_type(ctx, 0, types);
  TensorType out = ctx.input(0);
  if (out.shape.size() < 2)
    ctx.fail("the input is " + to_string(out) + ", it needs a batch and a channel dimension");
  std::fill(out.shape.begin() + 2, out.shape.end(), 1);
  return {out};
}

// Blocks over (n c | spatial...): a fold of whole images; the average divides in a block of its own.
void build_global(FuncBuilder& b, const BuildTensor& x, const BuildTensor& out, bool average) {
  const std::vector<Axis> axes = axes_of(x.shape);
  const std::vector<Axis> outer = {{"n", x.shape[0]}, {"c", x.shape[1]}};
  std::vector<Axis> inner(axes.begin() + 2, axes.end());
  const auto element = [&](const Exprs& i, const Exprs& r) {
    Exprs at = {i[0], i[1]};
    at.insert(at.end(), r.begin(), r.end());
    return x.at(at);
  };
  const auto place = [&](const Exprs& i) {
    Exprs at(x.shape.size(), Expr(0));
    at[0] = i[0];
    at[1] = i[1];
    return at;
  };
  if (!average) return b.reduce(out, outer, inner, ReduceOp::max, element, {}, place);
  const BuildTensor sum = b.temp("Sum", {x.dtype(), {x.shape[0], x.shape[1]}});
  b.reduce(sum, outer, inner, ReduceOp::add, element);
  const Expr count = product(Dims(x.shape.begin() + 2, x.shape.end())).expr();
  b.compute(
      out, outer, [&](const Exprs& i) { return divided_by_count(sum.at(i), count); }, place);
}

}  // namespace

void register_pool(Rows& rows) {
  const auto row = [&](const char* name, auto infer, auto build) {
    rows.push_back({.name = name,
                    .since = 1,
                    .min_inputs = 1,
                    .max_inputs = 1,
                    .pattern = Pattern::reduction,
                    .by_channels = true,
                    .infer = infer,
                    .build = build});
  };
  row("MaxPool", infer_max_pool, build_max_pool);
  rows.back().note = "a window with NaN is NaN";
  rows.push_back({.name = "MaxPoolIndices",
                  .domain = "nestor",
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::reduction,
                  .params = "X Y",
                  .infer = infer_max_pool_indices,
                  .build = [](const OpContext& ctx, FuncBuilder& b, const Tensors& in,
                              const Tensors& out) { find_maxima(ctx, b, in[0], in[1], out[0]); },
                  .note = "where the maxima of MaxPool stand; made by the compiler, not by models"});
  row("AveragePool", infer_average_pool, build_average_pool);
  row("LpPool", infer_lp_pool, build_lp_pool);
  row(
      "GlobalLpPool",
      [](const OpContext& ctx) {
        read_p(ctx);
        return infer_global(ctx, kFloats);
      },
      build_global_lp_pool);
  row(
      "GlobalAveragePool", [](const OpContext& ctx) { return infer_global(ctx, kFloats); },
      [](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
        build_global(b, in[0], out[0], true);
      });
  row(
      "GlobalMaxPool", [](const OpContext& ctx) { return infer_global(ctx, kFloats); },
      [](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
        build_global(b, in[0], out[0], false);
      });
}

}  // namespace nestor::ops
