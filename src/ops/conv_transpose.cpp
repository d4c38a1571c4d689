// ConvTranspose in one to three spatial dimensions: input element i and tap r add to output
// stride * i + dilation * r - pad. Written as sums over what an output reads, it is a convolution for each
// residue of (output + pad) modulo the stride, over the taps that reach such outputs: nothing is multiplied
// by zeros that a stride leaves out. Neighbouring residues that have as many taps, begin at the same input
// and run as long share one nest, with an iterator for them, so that a dimension has few classes (four, say)
// where nothing is dilated, and one where the stride divides kernel and padding. Where a group has few
// filters, one iterator stands for them and the residues: neither alone would fill lanes or rows of a tile.
//
// nestor.ConvTranspose has its weights in Conv's order, filters first: constant ones can then lie in blocks
// of filters (flip_convolutions).
#include <algorithm>
#include <functional>
#include <numeric>

#include "src/ops/products.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

struct TransposedShape {
  int64_t n, channels, filters, group;
  // Weights: [filters, channels of a group, ...], else [channels, filters of a group, ...].
  bool filters_first;
  Dims input, kernel, stride, dilation, pad, output;  // by spatial dimension
};

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

// Outputs first + stride * a + j, 0 <= a < count, 0 <= j < residues: tap t of the sum, 0 <= t < taps, is
// input[a + from + t * input_step] * weight[tap + j - t * tap_step].
struct Class {
  int64_t first, count, residues, taps, from, input_step, tap, tap_step;
  bool takes(const Class& next) const {
    return next.count == count && next.taps == taps && next.first == first + residues &&
           (taps == 0 || (next.from == from && next.tap == tap + residues));
  }
};

// Tap r reaches residue r * dilation modulo the stride; every stride / gcd-th tap reaches the same one. The
// sum runs over them backwards, so that the input is read forwards.
std::vector<Class> classes_of(const TransposedShape& s, size_t d) {
  const int64_t stride = s.stride[d], dilation = s.dilation[d], pad = s.pad[d], kernel = s.kernel[d];
  const int64_t common = std::gcd(stride, dilation), step = stride / common, input_step = dilation / common;
  std::vector<Class> residues;
  for (int64_t o = 0; o < std::min(stride, s.output[d]); ++o) {  // the first output of each residue
    const int64_t residue = (o + pad) % stride;
    const int64_t begin = ceil_div(std::max<int64_t>(pad - residue, 0), stride);
    Class c{stride * begin + residue - pad, 0, 1, 0, 0, input_step, 0, step};
    c.count = ceil_div(std::max<int64_t>(s.output[d] - c.first, 0), stride);
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
            [](const Class& a, const Class& b) { return a.first < b.first; });
  std::vector<Class> out;
  for (const Class& c : residues)
    if (!out.empty() && out.back().takes(c))
      ++out.back().residues;
    else
      out.push_back(c);
  return out;
}

using Classes = std::vector<Class>;  // one of each dimension
void for_each_choice(const std::vector<Classes>& by_dim, Classes& chosen,
                     const std::function<void(const Classes&)>& f) {
  if (chosen.size() == by_dim.size()) return f(chosen);
  for (const Class& c : by_dim[chosen.size()]) {
    chosen.push_back(c);
    for_each_choice(by_dim, chosen, f);
    chosen.pop_back();
  }
}

// The nests of one class in each dimension.
class ClassNest {
 public:
  ClassNest(const TransposedShape& s, const Classes& classes) : s_(s), classes_(classes) {
    static const std::vector<std::vector<const char*>> at = {{}, {"x"}, {"y", "x"}, {"z", "y", "x"}};
    static const std::vector<std::vector<const char*>> tap = {{}, {"s"}, {"r", "s"}, {"q", "r", "s"}};
    constexpr int64_t kFew = 16;
    axes_ = {{"n", s.n}, {"o", s.filters}};
    const size_t rank = classes.size();
    joined_ = s.filters < kFew;
    for (size_t d = 0; d < rank; ++d) {  // what chooses the weights stands outside
      residue_.push_back(axes_.size());
      if (classes[d].residues == 1) continue;
      if (joined_)
        axes_[1].extent *= classes[d].residues;
      else
        axes_.push_back({std::string("p") + at[rank][d], classes[d].residues});
    }
    for (size_t d = 0; d < rank; ++d) {
      position_.push_back(axes_.size());
      axes_.push_back({at[rank][d], classes[d].count});
      reduced_.push_back({tap[rank][d], classes[d].taps});
    }
    reduced_.push_back({"c", s.channels / s.group});
  }

  // The element of the output (n, o, spatial...) that an iteration writes.
  Exprs output(const Exprs& i) const {
    Exprs out = {i[0], filter(i)};
    for (size_t d = 0; d < classes_.size(); ++d)
      out.push_back(i[position_[d]] * Expr(s_.stride[d]) + residue(i, d) + Expr(classes_[d].first));
    return out;
  }

  // P, the input with zeros around it as far as the sums reach, and T: n o p... y x | r s c.
  BuildTensor sum(FuncBuilder& b, const BuildTensor& x, const BuildTensor& w, DType type) const {
    const Window window = input_window();
    const bool empty =
        std::any_of(classes_.begin(), classes_.end(), [](const Class& c) { return c.taps == 0; });
    const BuildTensor p = empty ? x : padded_input(b, window, x, constant_like(x, 0));
    const int64_t channels = s_.channels / s_.group, filters = s_.filters / s_.group;
    const Factor widen = widened(type);
    Dims shape;
    for (const Axis& a : axes_) shape.push_back(a.extent);
    const BuildTensor t = b.temp("T", {type, shape});
    b.reduce(t, axes_, reduced_, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
      const Expr c = r.back();
      const Expr o = filter(i), channel = s_.group == 1 ? c : group(i) * Expr(channels) + c;
      Exprs p_at = {i[0], channel}, w_at = {channel, s_.group == 1 ? o : o % Expr(filters)};
      if (s_.filters_first) w_at = {o, c};
      for (size_t d = 0; d < classes_.size(); ++d) {
        const Class& k = classes_[d];
        p_at.push_back(i[position_[d]] + r[d] * Expr(k.input_step) + Expr(k.from + window.pad_begin[d]));
        w_at.push_back(residue(i, d) + Expr(k.tap) - r[d] * Expr(k.tap_step));
      }
      return widen(p.at(p_at), i) * widen(w.at(w_at), i);
    });
    return t;
  }

  const std::vector<Axis>& axes() const { return axes_; }
  Expr filter(const Exprs& i) const { return joined_ ? divided(i[1], residues_from(0)) : i[1]; }

 private:
  Window input_window() const {
    Window w;
    w.input = s_.input;
    w.kernel = w.stride = w.dilation = Dims(classes_.size(), 1);
    for (const Class& c : classes_) {
      w.pad_begin.push_back(std::max<int64_t>(-c.from, 0));
      w.output.push_back(c.from + w.pad_begin.back() + c.count + (c.taps - 1) * c.input_step);
    }
    return w;
  }
  static Expr divided(const Expr& e, int64_t by) { return by == 1 ? e : e / Expr(by); }
  // Of the dimensions from d on.
  int64_t residues_from(size_t d) const {
    int64_t out = 1;
    for (; d < classes_.size(); ++d) out *= classes_[d].residues;
    return out;
  }
  Expr group(const Exprs& i) const {
    return divided(i[1], s_.filters / s_.group * (joined_ ? residues_from(0) : 1));
  }
  Expr residue(const Exprs& i, size_t d) const {
    if (classes_[d].residues == 1) return Expr(0);
    if (!joined_) return i[residue_[d]];
    return divided(i[1], residues_from(d + 1)) % Expr(classes_[d].residues);
  }

  const TransposedShape& s_;
  Classes classes_;
  bool joined_ = false;  // one iterator for filters and residues
  std::vector<Axis> axes_, reduced_;
  std::vector<size_t> residue_, position_;  // where a dimension's iterators stand
};

std::vector<TensorType> infer_conv_transpose(const OpContext& ctx) {
  require_type(ctx, 0, kConvolved);
  require_same_type(ctx, 0, 1);
  const TransposedShape s = transposed_shape(ctx);
  require_bias(ctx, s.filters);
  Dims out = {s.n, s.filters};
  out.insert(out.end(), s.output.begin(), s.output.end());
  return {{ctx.input(0).dtype, out}};
}

// For each choice of classes the sum and a block that puts it where it belongs, the bias added.
void build_conv_transpose(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const TransposedShape s = transposed_shape(ctx);
  const bool has_bias = in.size() > 2 && in[2];
  const DType type = out[0].dtype(), sums = is_half(type) ? DType::f32 : type;
  std::vector<Classes> by_dim;
  for (size_t d = 0; d < s.input.size(); ++d) by_dim.push_back(classes_of(s, d));
  Classes chosen;
  for_each_choice(by_dim, chosen, [&](const Classes& classes) {
    const ClassNest nest(s, classes);
    const BuildTensor t = nest.sum(b, in[0], in[1], sums);
    b.compute(
        out[0], nest.axes(),
        [&](const Exprs& i) {
          const Expr y = has_bias ? t.at(i) + make::cast({sums, 1}, in[2](nest.filter(i))) : t.at(i);
          return make::cast({type, 1}, y);
        },
        [&](const Exprs& i) { return nest.output(i); });
  });
}

}  // namespace

void register_conv_transpose(Rows& rows) {
  rows.push_back({.name = "ConvTranspose",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X W B",
                  .infer = infer_conv_transpose,
                  .build = build_conv_transpose,
                  .note = "a convolution for each residue of the stride; f16 and bf16 are added up in f32 "
                          "and rounded once"});
  OpDef filters_first = rows.back();
  filters_first.domain = "nestor";
  filters_first.note = "ConvTranspose with its weights in Conv's order; made by the compiler, not by models.";
  rows.push_back(std::move(filters_first));
}

}  // namespace nestor::ops
