#include "src/ops/transposed.h"

#include <algorithm>
#include <numeric>

#include "src/ops/window.h"

namespace nestor::ops {

namespace {

// Elements of a dimension before anything is cut off.
int64_t whole_output(const OpContext& ctx, const TransposedShape& s, size_t d, int64_t more) {
  int64_t steps = 0, taps = 0;
  if (__builtin_mul_overflow(s.input[d] - 1, s.stride[d], &steps) ||
      __builtin_mul_overflow(s.kernel[d] - 1, s.dilation[d], &taps) || steps > INT64_MAX / 4 ||
      taps > INT64_MAX / 4)
    ctx.fail("`strides` of " + std::to_string(s.stride[d]) + " and `dilations` of " +
             std::to_string(s.dilation[d]) + " make too many elements of spatial dimension " +
             std::to_string(d));
  return steps + taps + 1 + more;
}

// Output and the padding at its begin. An empty image has no outputs.
void fit_output(const OpContext& ctx, TransposedShape& s) {
  const size_t rank = s.input.size();
  const std::string auto_pad = read_auto_pad(ctx);
  Dims pads = spatial_list(ctx, "pads", 2 * rank, 0, 0);
  const Dims more = spatial_list(ctx, "output_padding", rank, 0, 0);
  const bool told = ctx.has_attr("output_shape");
  const Dims wanted = told ? spatial_list(ctx, "output_shape", rank, 0, 0) : Dims();
  if (auto_pad == "VALID") pads.assign(2 * rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    if (more[d] >= std::max(s.stride[d], s.dilation[d]))
      ctx.fail("`output_padding` is " + std::to_string(more[d]) + " in spatial dimension " +
               std::to_string(d) + ", it must be less than the stride or the dilation");
    const int64_t whole = s.input[d] == 0 ? 0 : whole_output(ctx, s, d, more[d]);
    if (told && wanted[d] > 0 && wanted[d] >= whole + s.stride[d])
      ctx.fail("`output_shape` is " + std::to_string(wanted[d]) + " in spatial dimension " +
               std::to_string(d) + ", strides and kernel reach no further than " +
               std::to_string(whole + s.stride[d] - 1));
    if (s.input[d] == 0 && !told) {
      s.pad.push_back(0);
      s.output.push_back(0);
      continue;
    }
    if (told || auto_pad.starts_with("SAME")) {
      s.output.push_back(told ? wanted[d] : std::min(whole, s.input[d] * s.stride[d]));
      const int64_t total = std::max<int64_t>(whole - s.output[d], 0);
      s.pad.push_back(auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2);
      continue;
    }
    s.pad.push_back(pads[d]);
    s.output.push_back(whole - pads[d] - pads[d + rank]);
    if (s.output[d] < 0)
      ctx.fail("paddings of " + std::to_string(pads[d]) + " and " + std::to_string(pads[d + rank]) +
               " take more than the " + std::to_string(whole) + " elements of spatial dimension " +
               std::to_string(d));
  }
}

}  // namespace

TransposedShape transposed_shape(const OpContext& ctx) {
  const Dims &x = ctx.input(0).shape, &w = ctx.input(1).shape;
  if (x.size() < 3 || x.size() > 5)
    ctx.fail("the input is " + to_string(ctx.input(0)) + "; one to three spatial dimensions are supported");
  require_rank(ctx, 1, x.size());
  TransposedShape s;
  s.input = Dims(x.begin() + 2, x.end());
  s.kernel = Dims(w.begin() + 2, w.end());
  const size_t rank = s.input.size();
  require_kernel(ctx, s.kernel, rank);
  if (ctx.get_ints("kernel_shape", s.kernel) != s.kernel)
    ctx.fail("`kernel_shape` differs from the spatial dimensions of the weight " + to_string(ctx.input(1)));
  s.group = ctx.get_int("group", 1);
  if (s.group < 1) ctx.fail("`group` is " + std::to_string(s.group) + ", at least 1 is needed");
  s.n = x[0];
  s.channels = x[1];
  s.filters_first = ctx.node().domain == "nestor";
  s.filters = s.filters_first ? w[0] : w[1] * s.group;
  if ((s.filters_first ? w[1] * s.group : w[0]) != s.channels || s.channels % s.group != 0)
    ctx.fail("the weight is " + to_string(ctx.input(1)) + ", its " +
             (s.filters_first ? "second dimension times the group" : "first dimension") + " must be the " +
             std::to_string(s.channels) + " input channels, in " + std::to_string(s.group) + " whole groups");
  if (s.filters % s.group != 0)
    ctx.fail(std::to_string(s.filters) + " filters aren't " + std::to_string(s.group) + " whole groups");
  s.stride = spatial_list(ctx, "strides", rank, 1, 1);
  s.dilation = spatial_list(ctx, "dilations", rank, 1, 1);
  fit_output(ctx, s);
  return s;
}

// Tap r reaches residue r * dilation modulo the stride; every stride / gcd-th tap reaches the same one. The
// sum runs over them backwards, so that the input is read forwards.
std::vector<ResidueClass> classes_of(const TransposedWindow& w) {
  const auto [input, kernel, stride, dilation, pad, output] = w;
  const int64_t common = std::gcd(stride, dilation), step = stride / common, input_step = dilation / common;
  std::vector<ResidueClass> residues;
  for (int64_t o = 0; o < std::min(stride, output); ++o) {  // the first output of each residue
    const int64_t residue = (o + pad) % stride;
    const int64_t begin = ceil_div(std::max<int64_t>(pad - residue, 0), stride);
    ResidueClass c{stride * begin + residue - pad, 0, 1, 0, 0, input_step, 0, step};
    c.count = ceil_div(std::max<int64_t>(output - c.first, 0), stride);
    int64_t lowest = 0;
    while (lowest < std::min(step, kernel) && lowest * dilation % stride != residue) ++lowest;
    if (lowest < std::min(step, kernel)) {
      c.taps = ceil_div(kernel - lowest, step);
      c.tap = lowest + (c.taps - 1) * step;
      c.from = begin + (residue - c.tap * dilation) / stride;
    }
    if (c.count > 0) residues.push_back(c);
  }
  std::sort(residues.begin(), residues.end(),
            [](const ResidueClass& a, const ResidueClass& b) { return a.first < b.first; });
  std::vector<ResidueClass> out;
  for (const ResidueClass& c : residues)
    if (!out.empty() && out.back().takes(c))
      ++out.back().residues;
    else
      out.push_back(c);
  return out;
}

}  // namespace nestor::ops
