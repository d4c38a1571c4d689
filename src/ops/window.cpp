// The arithmetic of sliding windows follows ONNX's text; where that is silent (ceil mode), ONNX Runtime,
// which the sweeps in tests/ops compare with.
#include "src/ops/window.h"

#include <algorithm>

#include "nestor/error.h"

namespace nestor::ops {

Dim Window::reach(size_t d) const {
  return output[d] == 0 ? Dim(0) : (output[d] - 1) * stride[d] + extent(d);
}

bool Window::is_padded() const {
  for (size_t d = 0; d < rank(); ++d)
    if (pad_begin[d] > 0 || !surely_le(reach(d), input[d])) return true;
  return false;
}

Dims spatial_list(const OpContext& ctx, const char* name, size_t count, int64_t fallback, int64_t least) {
  const Dims list = ctx.get_ints(name, Dims(count, fallback));
  if (list.size() != count)
    ctx.fail(std::string("`") + name + "` has " + std::to_string(list.size()) + " entries, the input needs " +
             std::to_string(count));
  for (int64_t v : list)
    if (v < least || v > kMostElements)
      ctx.fail(std::string("`") + name + "` contains " + std::to_string(v) +
               (v < least ? ", at least " + std::to_string(least) + " is needed" : ", which is too large"));
  return list;
}

std::string read_auto_pad(const OpContext& ctx) {
  const std::string auto_pad = ctx.get_string("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER")
    ctx.fail("`auto_pad` is \"" + auto_pad + "\"", "NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  return auto_pad;
}

void require_kernel(const OpContext& ctx, const Dims& kernel, size_t rank) {
  if (kernel.size() != rank)
    ctx.fail("the kernel has " + std::to_string(kernel.size()) + " spatial dimensions, the input has " +
             std::to_string(rank));
  for (int64_t k : kernel)
    if (k < 1 || k > kMostElements)
      ctx.fail("the kernel has a size of " + std::to_string(k) +
               (k < 1 ? ", at least 1 is needed" : ", which is too large"));
}

int64_t extent_of(const OpContext& ctx, int64_t taps, int64_t apart, size_t d) {
  if (taps - 1 > kMostElements / apart)
    ctx.fail("a window of " + std::to_string(taps) + " elements that are " + std::to_string(apart) +
             " apart is too large (spatial dimension " + std::to_string(d) + ")");
  return (taps - 1) * apart + 1;
}

namespace {

// Output size and, for SAME, the paddings of one dimension.
void fit_dimension(const OpContext& ctx, Window& w, size_t d, const std::string& auto_pad, bool ceil_mode) {
  const Dim &in = w.input[d], &stride = w.stride[d];
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    w.output[d] = ceil_div(in, stride);
    const Dim total = max((w.output[d] - 1) * stride + w.extent(d) - in, 0);
    w.pad_begin[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pad_end[d] = total - w.pad_begin[d];
    return;
  }
  const Dim padded = in + w.pad_begin[d] + w.pad_end[d];
  // The last window may begin before the padding ends, if it rounds up; so may the only one.
  const Dim extent = ceil_mode ? max(w.extent(d) - (stride - 1), 1) : w.extent(d);
  if (!must_be_at_most(extent, padded, "a window fits into the padded input")) {
    if (in != 0)
      ctx.fail("a window of " + to_string(w.extent(d)) + " doesn't fit into the padded input of " +
               to_string(padded) + " (spatial dimension " + std::to_string(d) + ")");
    w.output[d] = 0;
    return;
  }
  const Dim span = padded - w.extent(d);
  w.output[d] = (ceil_mode ? span + stride - 1 : span) / stride + 1;
  // A window must not begin in the padding behind the input.
  if (ceil_mode) w.output[d] = min(w.output[d], ceil_div(in + w.pad_begin[d], stride));
}

// The input with its padding becomes a tensor, or a part of one.
void require_memory(const OpContext& ctx, const Window& w) {
  Dims padded(ctx.input(0).shape.begin(), ctx.input(0).shape.begin() + 2);
  for (size_t d = 0; d < w.rank(); ++d) padded.push_back(w.reach(d));
  int64_t size = 1;
  for (const Dim& n : padded)
    if (n.known() && (__builtin_mul_overflow(size, std::max<int64_t>(n, 1), &size) || size > kMostElements))
      ctx.fail("with its padding the input is too large: " + to_string(ctx.input(0).dtype, padded));
}

}  // namespace

Window read_window(const OpContext& ctx, const Dims& kernel) {
  const Dims& shape = ctx.input(0).shape;
  NESTOR_CHECK(shape.size() >= 2) << "a window over " << to_string(ctx.input(0));
  Window w;
  w.input = Dims(shape.begin() + 2, shape.end());
  const size_t n = w.rank();
  w.kernel = kernel;
  require_kernel(ctx, kernel, n);
  w.stride = spatial_list(ctx, "strides", n, 1, 1);
  w.dilation = spatial_list(ctx, "dilations", n, 1, 1);
  const Dims pads = spatial_list(ctx, "pads", 2 * n, 0, 0);
  w.pad_begin = Dims(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.pad_end = Dims(pads.begin() + static_cast<int64_t>(n), pads.end());
  const std::string auto_pad = read_auto_pad(ctx);
  if (auto_pad == "VALID") w.pad_begin = w.pad_end = Dims(n, 0);
  w.output.resize(n);
  for (size_t d = 0; d < n; ++d) extent_of(ctx, w.kernel[d], w.dilation[d], d);
  for (size_t d = 0; d < n; ++d) fit_dimension(ctx, w, d, auto_pad, ctx.get_int("ceil_mode", 0) != 0);
  require_memory(ctx, w);
  return w;
}

int64_t pairs_inside(int64_t count, int64_t taps, int64_t stride, int64_t dilation, int64_t pad, int64_t of) {
  int64_t pairs = 0;
  for (int64_t r = 0; r < taps; ++r) {
    const int64_t from = pad - dilation * r, to = from + of;
    const auto first = [&](int64_t bound) { return ceil_div(std::max<int64_t>(bound, 0), stride); };
    pairs += std::max<int64_t>(0, std::min(count, first(to)) - first(from));
  }
  return pairs;
}

BuildTensor padded_input(FuncBuilder& b, const Window& w, const BuildTensor& x, const Expr& fill) {
  return w.is_padded() ? padded_copy(b, w, x, fill, [](const Expr& e) { return e; }) : x;
}

BuildTensor padded_copy(FuncBuilder& b, const Window& w, const BuildTensor& x, const Expr& fill,
                        const std::function<Expr(const Expr&)>& element) {
  Dims shape = {x.shape[0], x.shape[1]};
  for (size_t d = 0; d < w.rank(); ++d) shape.push_back(w.reach(d));
  const BuildTensor p = b.temp("P", {fill.dtype(), shape});
  static const std::vector<std::vector<const char*>> names = {{}, {"w"}, {"h", "w"}, {"d", "h", "w"}};
  std::vector<Axis> axes = {{"n", shape[0]}, {"c", shape[1]}};
  for (size_t d = 0; d < w.rank(); ++d) axes.push_back({names[w.rank()][d], shape[d + 2]});
  b.compute(p, axes, [&](const Exprs& i) {
    Expr inside = make::bool_imm(true);
    Exprs at = {i[0], i[1]};
    for (size_t d = 0; d < w.rank(); ++d) {
      const Dim begin = w.pad_begin[d], end = begin + w.input[d];
      if (!surely_le(begin, 0)) inside = logical_and(inside, le(begin, i[d + 2]));
      if (!surely_le(w.reach(d), end)) inside = logical_and(inside, lt(i[d + 2], end));
      at.push_back(i[d + 2] - begin.expr());
    }
    return make::select(inside, element(x.at(at)), fill);
  });
  return p;
}

std::vector<Axis> output_axes(const Window& w) {
  static const std::vector<std::vector<const char*>> names = {{}, {"x"}, {"y", "x"}, {"z", "y", "x"}};
  std::vector<Axis> out;
  for (size_t d = 0; d < w.rank(); ++d) out.push_back({names[w.rank()][d], w.output[d]});
  return out;
}

std::vector<Axis> kernel_axes(const Window& w) {
  static const std::vector<std::vector<const char*>> names = {{}, {"s"}, {"r", "s"}, {"q", "r", "s"}};
  std::vector<Axis> out;
  for (size_t d = 0; d < w.rank(); ++d) out.push_back({names[w.rank()][d], w.kernel[d]});
  return out;
}

Expr input_index(const Window& w, size_t d, const Expr& output, const Expr& tap) {
  return output * w.stride[d].expr() + tap * w.dilation[d].expr();
}

}  // namespace nestor::ops
