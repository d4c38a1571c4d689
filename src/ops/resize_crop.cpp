// Resize's tf_crop_and_resize: the first and the last element of the result lie on the ends of a region of
// interest, whose numbers are parts of the input's extent, and may lie outside of it.
#include <algorithm>
#include <cmath>

#include "src/ops/resize.h"

namespace nestor::ops {

namespace {

constexpr int kRegionInput = 1;

std::pair<int64_t, int64_t> region_fraction(const OpContext& ctx, double value) {
  const double size = std::abs(value);
  if (value != 0 && !(size >= 1e-6 && size <= 1e6))
    ctx.fail("`roi` has the element " + std::to_string(value), "0, or from 1e-6 to 1e6");
  const auto [over, under] = simplest_fraction(size);
  return {value < 0 ? -over : over, under};
}

}  // namespace

bool crops(const OpContext& ctx) {
  return ctx.node().op == "Resize" && ctx.node().opset >= 11 &&
         ctx.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
}

bool set_region(const OpContext& ctx, size_t k, size_t axes, Line& l) {
  if (!ctx.has_input(kRegionInput)) ctx.fail("tf_crop_and_resize needs `roi`");
  const Tensor* roi = ctx.constant(kRegionInput);
  if (!roi) ctx.fail_unknown(kRegionInput, "`roi`");
  if (!is_float(roi->dtype()) || roi->size() != static_cast<int64_t>(2 * axes))
    ctx.fail("`roi` is " + to_string(roi->dtype(), roi->shape()) + " for " + std::to_string(axes) + " axes",
             "a start for each axis, then an end for each");
  const double start = roi->get(static_cast<int64_t>(k)), end = roi->get(static_cast<int64_t>(axes + k));
  if (start == 0 && end == 1 && l.in == l.out) return false;
  if (!l.in.known() || !l.out.known())
    ctx.fail("tf_crop_and_resize of axis " + std::to_string(l.axis) +
             ", whose size is open, isn't supported");
  const auto [a, b] = region_fraction(ctx, start);
  const auto [c, d] = region_fraction(ctx, end);
  const int64_t in = l.in, out = l.out;
  const double parts = static_cast<double>(b) * static_cast<double>(d) * static_cast<double>(out),
               largest = parts * static_cast<double>(in) * (std::abs(start) + std::abs(end) + 1);
  if (largest > 0x1p60) ctx.fail("`roi` has fractions that are too fine for axis " + std::to_string(l.axis));
  if (out > 1) {
    // x = (in - 1) (start + i (end - start) / (out - 1))
    l.p = (in - 1) * (c * b - a * d), l.q = (in - 1) * (out - 1) * a * d, l.r = (out - 1) * b * d;
  } else {
    l.p = 0, l.q = (in - 1) * (a * d + c * b), l.r = 2 * b * d;
  }
  return true;
}

Expr or_extrapolated(const OpContext& ctx, const std::vector<Line>& lines, const Exprs& index,
                     const Expr& value) {
  if (!crops(ctx)) return value;
  Expr inside;
  for (const Line& l : lines) {
    const Expr x = l.numerator(index[l.axis]);
    const Expr here = logical_and(le(0, x), le(x, ((l.in - 1) * l.r).expr()));
    inside = inside ? logical_and(inside, here) : here;
  }
  if (!inside) return value;
  return make::select(inside, value, make::imm(ctx.get_float("extrapolation_value", 0), value.type()));
}

}  // namespace nestor::ops
