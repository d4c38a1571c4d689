#include "src/ops/transposed.h"

#include <algorithm>
#include <numeric>

#include "src/ops/window.h"

namespace nestor::ops {

namespace {

// Elements of a dimension before anything is cut off.
Dim whole_output(const OpContext& ctx, const TransposedShape& s, size_t d, int64_t more) {
  Dim steps = 0, taps = 0;
  if (mul_overflows(s.input[d] - 1, s.stride[d], steps) ||
      mul_overflows(s.kernel[d] - 1, s.dilation[d], taps) || steps > INT64_MAX / 4 || taps > INT64_MAX / 4)
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
    if (!s.input[d].known()) must_be_at_most(1, s.input[d], "a ConvTranspose of no elements has none");
    const Dim whole = s.input[d] == 0 ? Dim(0) : whole_output(ctx, s, d, more[d]);
    if (told && wanted[d] > 0 && wanted[d] >= whole + s.stride[d])
      ctx.fail("`output_shape` is " + std::to_string(wanted[d]) + " in spatial dimension " +
               std::to_string(d) + ", strides and kernel reach no further than " +
               to_string(whole + s.stride[d] - 1));
    if (s.input[d] == 0 && !told) {
      s.pad.push_back(0);
      s.output.push_back(0);
      continue;
    }
    if (told || auto_pad.starts_with("SAME")) {
      s.output.push_back(told ? wanted[d] : min(whole, s.input[d] * s.stride[d]));
      const Dim total = max(whole - s.output[d], 0);
      s.pad.push_back(auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2);
      continue;
    }
    s.pad.push_back(pads[d]);
    s.output.push_back(whole - pads[d] - pads[d + rank]);
    if (s.output[d] < 0)
      ctx.fail("paddings of " + std::to_string(pads[d]) + " and " + std::to_string(pads[d + rank]) +
               " take more than the " + to_string(whole) + " elements of spatial dimension " +
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
  const Dim wanted = s.filters_first ? w[1] * s.group : w[0];
  if (must_equal(wanted, s.channels)) s.channels = wanted;
  if (wanted != s.channels || s.channels % s.group != 0)
    ctx.fail("the weight is " + to_string(ctx.input(1)) + ", its " +
             (s.filters_first ? "second dimension times the group" : "first dimension") + " must be the " +
             to_string(s.channels) + " input channels, in " + std::to_string(s.group) + " whole groups");
  if (s.filters % s.group != 0)
    ctx.fail(to_string(s.filters) + " filters aren't " + std::to_string(s.group) + " whole groups");
  s.stride = spatial_list(ctx, "strides", rank, 1, 1);
  s.dilation = spatial_list(ctx, "dilations", rank, 1, 1);
  fit_output(ctx, s);
  return s;
}

namespace {

ResidueClasses joined(ResidueClasses classes) {
  std::sort(classes.begin(), classes.end(),
            [](const ResidueClass& a, const ResidueClass& b) { return a.first < b.first; });
  ResidueClasses out;
  for (const ResidueClass& c : classes)
    if (!out.empty() && out.back().takes(c))
      ++out.back().residues;
    else
      out.push_back(c);
  return out;
}

// Of stride and dilation without a common divisor. Tap r reaches residue r * dilation modulo the stride;
// every stride-th tap reaches the same one. The sum runs over them backwards, so that the input is read
// forwards. With `to_last_input` what only the end of the output has, behind what taps reach, is apart.
ResidueClasses residues_of(const TransposedWindow& w, bool to_last_input) {
  const auto [input, kernel, stride, dilation, pad, output] = w;
  ResidueClasses out;
  const int64_t residues = output.known() ? std::min(stride, static_cast<int64_t>(output)) : stride;
  for (int64_t o = 0; o < residues; ++o) {  // the first output of each residue
    const int64_t residue = (o + pad) % stride;
    const int64_t begin = ceil_div(std::max<int64_t>(pad - residue, 0), stride);
    ResidueClass c{stride * begin + residue - pad, stride, 0};
    c.count = ceil_div(max(output - c.first, 0), stride);
    int64_t lowest = 0;
    while (lowest < std::min(stride, kernel) && lowest * dilation % stride != residue) ++lowest;
    if (lowest < std::min(stride, kernel)) {
      c.taps = ceil_div(kernel - lowest, stride);
      c.tap = lowest + (c.taps - 1) * stride;
      c.from = begin + (residue - c.tap * dilation) / stride;
      c.input_step = dilation;
      c.tap_step = stride;
    }
    if (to_last_input && c.taps > 0) {
      const int64_t reached = std::clamp<int64_t>(input - c.from, 0, c.count);
      if (reached < c.count) out.push_back({c.first + stride * reached, stride, c.count - reached});
      c.count = reached;
    }
    if (!c.count.known() || c.count > 0) out.push_back(c);
  }
  return out;
}

// Residues of as many taps run equally long as far as these reach, and their nests are one; but where they
// are few, a tile of them is worse than one of filters or of a line. (Emerald Rapids: 4x4/4 in 2 groups, 8 to
// 40 channels at 16x32 130 to 73 us, 8x8x8/4 384 to 24 25 to 20 ms; 2/2, 256 to 148 at 2675 would take 2.0
// to 3.8.)
ResidueClasses joined_residues(const TransposedWindow& w) {
  constexpr int64_t kFewResidues = 3;
  const auto nests = [](const ResidueClasses& classes) {
    return std::count_if(classes.begin(), classes.end(), [](const ResidueClass& c) { return c.taps > 0; });
  };
  ResidueClasses all = joined(residues_of(w, false));
  if (w.stride <= kFewResidues || !w.input.known() || !w.output.known()) return all;
  ResidueClasses reached = joined(residues_of(w, true));
  return nests(reached) < nests(all) ? reached : all;
}

// What stride and dilation have in common lies between outputs that are reached: they are those of a smaller
// window, that far apart, and nothing reaches the others.
ResidueClasses classes_of(const TransposedWindow& w) {
  const int64_t apart = std::gcd(w.stride, w.dilation), pad = ceil_div(w.pad, apart),
                first = apart * pad - w.pad;
  ResidueClasses out = joined_residues({w.input, w.kernel, w.stride / apart, w.dilation / apart, pad,
                                        ceil_div(max(w.output - first, 0), apart)});
  for (ResidueClass& c : out) {
    c.first = first + apart * c.first;
    c.stride = w.stride;
    c.apart = apart;
  }
  ResidueClasses between;
  for (int64_t o = 0; o < apart; ++o)
    if (o != first && (!w.output.known() || o < w.output))
      between.push_back({o, apart, ceil_div(max(w.output - o, 0), apart)});
  between = joined(std::move(between));
  out.insert(out.end(), between.begin(), between.end());
  return out;
}

}  // namespace

// What is reached in every dimension; then, for each dimension, what isn't, wherever it is in those behind.
std::vector<ResidueClasses> classes_of(const TransposedShape& s) {
  const size_t rank = s.input.size();
  if (product(s.output) == 0) return {};
  std::vector<ResidueClasses> out, chosen = {{}};  // of what is reached in the dimensions before d
  for (size_t d = 0; d < rank; ++d) {
    std::vector<ResidueClasses> reached;
    for (const ResidueClass& c : classes_of(s.window(d)))
      for (ResidueClasses before : chosen) {
        before.push_back(c);
        if (c.taps > 0) {
          reached.push_back(before);
          continue;
        }
        for (size_t k = d + 1; k < rank; ++k) before.push_back({0, 1, s.output[k]});
        out.push_back(before);
      }
    chosen = reached;
  }
  out.insert(out.begin(), chosen.begin(), chosen.end());
  return out;
}

}  // namespace nestor::ops
