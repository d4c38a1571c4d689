// Resize and its forerunner Upsample. Where element i of the result lies in the input, on one axis, is a line
// of integers, x = (p i + q) / r: sizes are integers, and a scale stands for the simplest fraction of its
// digits. So indices are quotients and remainders that schedules and proofs understand, no float decides
// which of two elements is nearer, and no table is read.
//
// One block for each axis that changes, the result being the last: an axis that shrinks first, so that what
// is left to do is less, then those that grow, innermost first.
#include "src/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

#include "src/ops/common.h"
#include "src/ops/cubic.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

constexpr int64_t kLargest = int64_t{1} << 20;  // extent of an axis, so that no product of a line overflows

enum class Mode : uint8_t { nearest, linear, cubic };

Mode mode_of(const OpContext& ctx) {
  const std::string mode = ctx.get_string("mode", "nearest");
  if (mode == "nearest") return Mode::nearest;
  if (mode == "linear" || mode == "bilinear") return Mode::linear;
  if (mode == "cubic" && ctx.node().op == "Resize") return Mode::cubic;
  ctx.fail("`mode` is \"" + mode + "\"",
           ctx.node().op == "Resize" ? "nearest, linear or cubic" : "nearest or linear");
}

// The positions of scales and sizes among the inputs: until opset 10 there are scales only.
int scales_input(const OpContext& ctx) {
  return ctx.node().op == "Resize" && ctx.node().opset >= 11 ? 2 : 1;
}
int sizes_input(const OpContext& ctx) {
  return ctx.node().op == "Resize" && ctx.node().opset >= 11 ? 3 : -1;
}

// An omitted input may also be a list of nothing.
bool is_given(const OpContext& ctx, int i) {
  return i >= 0 && ctx.has_input(i) && product(ctx.input(i).shape) > 0;
}

std::vector<double> scales_from(const OpContext& ctx) {
  if (ctx.node().op == "Upsample" && ctx.node().opset < 9) return ctx.get_floats("scales", {});
  const int i = scales_input(ctx);
  if (!is_given(ctx, i)) ctx.fail("neither `scales` nor `sizes` are given");
  require_type(ctx, i, {DType::f32});
  const Tensor* t = ctx.constant(i);
  if (!t) ctx.fail_unknown(i, "`scales`");
  std::vector<double> out;
  for (int64_t k = 0; k < t->size(); ++k) out.push_back(t->get(k));
  return out;
}

// The axes that scales or sizes are for.
Dims axes_from(const OpContext& ctx) {
  Dims all(ctx.input(0).shape.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return normal_axes(ctx, ctx.get_ints("axes", all), all.size());
}

void check_count(const OpContext& ctx, const char* what, size_t count, size_t axes) {
  if (count != axes)
    ctx.fail("`" + std::string(what) + "` has " + std::to_string(count) + " elements for " +
             std::to_string(axes) + " axes");
}

// Changes sizes so that they keep the image's proportions, no side larger than asked for, or none smaller.
// Returns the scale of all sides; nothing where each has its own.
std::optional<double> keep_proportions(const OpContext& ctx, const Dims& axes, Dims& sizes) {
  const std::string policy = ctx.get_string("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || sizes.empty()) return std::nullopt;
  if (policy != "not_larger" && policy != "not_smaller")
    ctx.fail("`keep_aspect_ratio_policy` is \"" + policy + "\"", "stretch, not_larger or not_smaller");
  std::vector<double> ratios;
  const auto extent = [&](size_t k) {
    return static_cast<double>(static_cast<int64_t>(ctx.input(0).shape[static_cast<size_t>(axes[k])]));
  };
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (extent(k) == 0) return std::nullopt;  // no proportions
    ratios.push_back(static_cast<double>(static_cast<int64_t>(sizes[k])) / extent(k));
  }
  const double ratio = policy == "not_larger" ? *std::min_element(ratios.begin(), ratios.end())
                                              : *std::max_element(ratios.begin(), ratios.end());
  for (size_t k = 0; k < sizes.size(); ++k) sizes[k] = std::llround(ratio * extent(k));
  return ratio;
}

// What numbers have in common is taken out.
void reduce_line(Line& l) {
  if (!l.p.known() || !l.q.known() || !l.r.known()) return;
  const int64_t p = l.p, q = l.q, r = l.r, common = std::gcd(std::gcd(p, q), r);
  l.p = p / common, l.q = q / common, l.r = r / common;
}

// in / out of an axis, by which x moves: of the sizes, or of the scale, which needn't come to them.
void set_ratio(Line& l, std::optional<double> scale) {
  l.p = l.in, l.r = l.out;
  if (scale) {
    const auto [over, under] = simplest_fraction(*scale);
    l.r = over, l.p = under;
  } else if (!l.p.known() || !l.r.known()) {  // 2 * N is to N as 2 to 1
    if (const Dim times = l.out / l.in; times.known() && times * l.in == l.out) l.p = 1, l.r = times;
    if (const Dim times = l.in / l.out; times.known() && times * l.out == l.in) l.p = times, l.r = 1;
  }
  l.open = !l.p.known() || !l.r.known();
  if (!l.open)
    l.scale = scale.value_or(static_cast<double>(static_cast<int64_t>(l.r)) /
                             static_cast<double>(static_cast<int64_t>(l.p)));
  reduce_line(l);
}

// Without a transformation to choose: of the corner that an element begins at.
bool is_old(const OpContext& ctx) {
  return ctx.node().op == "Upsample" || ctx.node().opset < 11;
}

std::string transformation(const OpContext& ctx) {
  if (is_old(ctx)) return "asymmetric";
  const std::string mode = ctx.get_string("coordinate_transformation_mode", "half_pixel");
  for (const char* known : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                            "asymmetric", "tf_crop_and_resize"})
    if (mode == known) return mode;
  ctx.fail("`coordinate_transformation_mode` \"" + mode + "\" isn't supported",
           "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric or "
           "tf_crop_and_resize");
}

// Where the middle of a result's element lies: x = (i + 1/2) p / r - 1/2, or as `mode` says.
void set_origin(const OpContext& ctx, Line& l) {
  std::string mode = transformation(ctx);
  const bool starts_at_0 = mode == "pytorch_half_pixel";  // if there is one element
  if (starts_at_0) mode = "half_pixel";
  if (mode == "align_corners") {
    // As long as its scale says, out' = in r / p, it ends where the input does: x = i (in - 1) / (out' - 1).
    const Dim last = l.in * l.r - l.p;
    const bool one = l.out.known() && l.out <= 1;  // an unknown one is only read at 0, whatever r is
    l.p = one ? Dim(0) : (l.in - 1) * l.p, l.r = one ? Dim(1) : last.known() ? last : max(last, 1);
  } else if (mode == "half_pixel") {
    l.q = l.p - l.r, l.p *= 2, l.r *= 2;
    if (starts_at_0) l.q *= min(l.out - 1, 1);
  } else if (mode == "half_pixel_symmetric") {
    // It shares the input's middle: x = in / 2 (1 - out / out') + (i + 1/2) p / r - 1/2.
    l.q = l.in * l.r - l.out * l.p + l.p - l.r, l.p *= 2, l.r *= 2;
  }
  reduce_line(l);
}

// As ONNX Runtime has it, of the product in f32. Of a size that isn't known by integers, if these come to the
// same: where the scale is the fraction's value, or a little more.
Dim scaled(const OpContext& ctx, const Dim& in, double scale) {
  const auto f32 = static_cast<float>(scale);
  if (in.known()) return static_cast<int64_t>(std::floor(static_cast<float>(static_cast<int64_t>(in)) * f32));
  const auto [over, under] = simplest_fraction(scale);
  if (static_cast<double>(f32) * static_cast<double>(under) >= static_cast<double>(over))
    return in * over / under;
  constexpr Type kF32{DType::f32, 1}, kI64{DType::i64, 1};
  const Expr product = make::cast(kF32, in.expr()) * make::imm(static_cast<double>(f32), kF32);
  return ctx.dim(make::cast(kI64, make::call(Intrinsic::floor, {product})));
}

// Whether an axis usually does; one of which nothing is known may be taken for it.
bool grows(const Line& l) {
  const int64_t in = l.in.typical(), out = l.out.typical();
  return out > in || (out == in && !l.out.known());
}

// One line for each axis that changes, in the order in which they are resized.
std::vector<Line> lines_of(const OpContext& ctx) {
  const Dims axes = axes_from(ctx), &shape = ctx.input(0).shape;
  std::vector<double> scales;
  Dims sizes;
  std::optional<double> common;
  if (is_given(ctx, sizes_input(ctx))) {
    sizes = ctx.ints_from(sizes_input(ctx), "sizes");
    check_count(ctx, "sizes", sizes.size(), axes.size());
    common = keep_proportions(ctx, axes, sizes);
  } else {
    scales = scales_from(ctx);
    check_count(ctx, "scales", scales.size(), axes.size());
  }
  std::vector<Line> out;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto axis = static_cast<size_t>(axes[k]);
    Line l{axis, shape[axis], 0};
    std::optional<double> scale = common;
    if (sizes.empty()) {
      scale = scales[k];
      if (!(*scale > 0) || !(*scale * static_cast<double>(l.in.typical()) <= static_cast<double>(kLargest)))
        ctx.fail("the scale " + std::to_string(*scale) + " of axis " + std::to_string(axis) +
                 " isn't above 0, or makes more than " + std::to_string(kLargest) + " elements");
      // Of the product in f32, as ONNX Runtime has it.
      l.out = scaled(ctx, l.in, *scale);
    } else {
      l.out = sizes[k];
    }
    if (l.out < 0 || l.out > kLargest || l.in > kLargest)
      ctx.fail("axis " + std::to_string(axis) + " would have " + to_string(l.out) + " elements, of " +
               to_string(l.in));
    if (l.in == 0 && l.out > 0) ctx.fail("axis " + std::to_string(axis) + " has no elements");
    if (crops(ctx) && set_region(ctx, k, axes.size(), l)) {
      reduce_line(l);
      out.push_back(l);
      continue;
    }
    if (l.in == l.out && (!scale || *scale == 1 || is_old(ctx) || crops(ctx))) continue;
    if (!l.out.known() || l.out > 0) {
      set_ratio(l, scale);
      set_origin(ctx, l);
    }
    out.push_back(l);
  }
  std::sort(out.begin(), out.end(), [](const Line& a, const Line& b) {
    const bool grows_a = grows(a), grows_b = grows(b);
    return grows_a != grows_b ? !grows_a : grows_a ? a.axis > b.axis : a.axis < b.axis;
  });
  return out;
}

std::vector<TensorType> infer_resize(const OpContext& ctx) {
  if (mode_of(ctx) != Mode::nearest) require_type(ctx, 0, kFloats);
  if (ctx.get_int("antialias", 0) != 0 && crops(ctx))
    ctx.fail("`antialias` with tf_crop_and_resize isn't supported");
  ctx.get_float("extrapolation_value", 0);
  const std::string nearest = ctx.get_string("nearest_mode", "round_prefer_floor");
  if (nearest != "round_prefer_floor" && nearest != "round_prefer_ceil" && nearest != "floor" &&
      nearest != "ceil")
    ctx.fail("`nearest_mode` is \"" + nearest + "\"", "round_prefer_floor, round_prefer_ceil, floor or ceil");
  transformation(ctx);
  Dims out = ctx.input(0).shape;
  for (const Line& l : lines_of(ctx)) out[l.axis] = l.out;
  return {{ctx.input(0).dtype, out}};
}

// Until opset 10 the text doesn't say which: that before, or behind where the axis shrinks, as ONNX
// Runtime's.
Taps nearest(const OpContext& ctx, const Line& l, const Expr& i) {
  const std::string mode =
      is_old(ctx) ? l.scale < 1 ? "ceil" : "floor" : ctx.get_string("nearest_mode", "round_prefer_floor");
  const Expr a = l.numerator(i), r = l.r.expr();
  if (mode == "floor") return {{l.clamped(a / r)}, {}};
  if (mode == "ceil") return {{l.clamped((a + r - 1) / r)}, {}};
  const Expr twice = a * Expr(2), r2 = (2 * l.r).expr();
  return {{l.clamped(mode == "round_prefer_ceil" ? (twice + r) / r2 : (twice + (l.r - 1).expr()) / r2)}, {}};
}

// Between two neighbours; before the first and behind the last, these.
Taps linear(const Line& l, const Expr& i, Type t) {
  const Expr a = min(max(l.numerator(i), 0), ((l.in - 1) * l.r).expr()), first = a / l.r.expr();
  const Expr f = fraction(l, a, t);
  return {{first, min(first + 1, (l.in - 1).expr())}, {make::imm(1, t) - f, f}};
}

// Over two neighbours each way.
Taps cubic(const OpContext& ctx, const Line& l, const Expr& i, Type t) {
  const bool exclude = ctx.get_int("exclude_outside", 0) != 0;
  const Expr numerator = l.numerator(i), first = numerator / l.r.expr(), f = fraction(l, numerator, t);
  const std::array<Expr, 4> weights = cubic_weights(f, ctx.get_float("cubic_coeff_a", -0.75));
  Taps out;
  for (int k = 0; k < 4; ++k) {
    const Expr at = first + Expr(k - 1), inside = logical_and(le(0, at), lt(at, l.in.expr()));
    const Expr& w = weights[static_cast<size_t>(k)];
    out.at.push_back(l.clamped(at));
    out.weights.push_back(exclude ? make::select(inside, w, make::imm(0, t)) : w);
  }
  if (exclude) out.total = out.weights[0] + out.weights[1] + out.weights[2] + out.weights[3];
  return out;
}

Taps taps_of(const OpContext& ctx, Mode mode, const Line& l, const Expr& i, Type t) {
  return mode == Mode::nearest  ? nearest(ctx, l, i)
         : mode == Mode::linear ? linear(l, i, t)
                                : cubic(ctx, l, i, t);
}

}  // namespace

std::pair<int64_t, int64_t> simplest_fraction(double value) {
  int64_t a = 0, b = 1, p = 1, q = 0;  // the fractions before the last, and the last: a / b, p / q
  for (double rest = value;; rest = 1 / (rest - std::floor(rest))) {
    const auto whole = static_cast<int64_t>(rest);
    std::tie(a, b, p, q) = std::tuple(p, q, whole * p + a, whole * q + b);
    const double now = static_cast<double>(p) / static_cast<double>(q);
    if (static_cast<float>(now) == static_cast<float>(value) || rest == std::floor(rest)) return {p, q};
  }
}

Expr fraction(const Line& l, const Expr& numerator, Type t) {
  if (l.r == 1) return make::imm(0, t);
  return make::cast(t, numerator % l.r.expr()) * one_over(l.r, t);
}

namespace {

void build_resize(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const std::vector<Line> lines = lines_of(ctx);
  const Mode mode = mode_of(ctx);
  const Type t{in[0].dtype(), 1};
  const auto along = [&](const Line& l) {
    const bool is_row = l.axis + 1 == in[0].shape.size();
    return in_tables(b, l, is_row,
                     [&ctx, &l, mode, t](const Expr& i) { return taps_of(ctx, mode, l, i, t); });
  };
  if (mode == Mode::nearest || lines.empty()) {
    std::vector<TapsAt> taps;
    for (const Line& l : lines) taps.push_back(along(l));
    b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
      Exprs at = i;
      for (size_t k = 0; k < lines.size(); ++k) at[lines[k].axis] = taps[k](i[lines[k].axis]).at[0];
      return or_extrapolated(ctx, lines, i, in[0].at(at));
    });
    return;
  }
  BuildTensor from = in[0];
  for (size_t k = 0; k < lines.size(); ++k) {
    const Line& l = lines[k];
    Dims shape = from.shape;
    shape[l.axis] = l.out;
    const BuildTensor to = k + 1 == lines.size() ? out[0] : b.temp("T", {t.dtype, shape});
    if (ctx.get_int("antialias", 0) != 0 && (l.open || l.scale < 1)) {
      build_antialiased(ctx, b, l, mode == Mode::cubic, from, to);
      from = to;
      continue;
    }
    const TapsAt taps = along(l);
    b.compute(to, axes_of(shape), [&](const Exprs& i) {
      const Taps here = taps(i[l.axis]);
      Expr value;
      for (size_t tap = 0; tap < here.at.size(); ++tap) {
        Exprs at = i;
        at[l.axis] = here.at[tap];
        const Expr term = from.at(at) * here.weights[tap];
        value = value ? value + term : term;
      }
      if (here.total) value = value / here.total;
      return k + 1 == lines.size() ? or_extrapolated(ctx, lines, i, value) : value;
    });
    from = to;
  }
}

}  // namespace

void register_resize(Rows& rows) {
  const auto row = [&](const char* name, int since, int until, int inputs, std::vector<int> known) {
    rows.push_back({.name = name,
                    .since = since,
                    .until = until,
                    .min_inputs = 1,
                    .max_inputs = inputs,
                    .pattern = Pattern::reduction,
                    .by_channels = true,
                    .infer = infer_resize,
                    .build = build_resize,
                    .static_inputs = std::move(known)});
  };
  row("Upsample", 7, 8, 1, {});
  row("Upsample", 9, 10, 2, {1});
  row("Resize", 10, 10, 2, {1});
  row("Resize", 11, 1000, 4, {1, 2, 3});
}

}  // namespace nestor::ops
