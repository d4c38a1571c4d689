// Conv in one to three spatial dimensions, any group, stride, padding, dilation. Three blocks at most: P pads
// the input, T multiplies and adds up over (c, r, s), the output adds the bias. One loop nest n o y x c r s
// serves every group count: output channel o reads the C/G input channels of its group, which begin at o /
// (O/G) * (C/G).
#include "src/ops/products.h"
#include "src/ops/registry.h"

namespace nestor::ops {

Dims ConvShape::output() const {
  Dims out = {n, filters};
  out.insert(out.end(), window.output.begin(), window.output.end());
  return out;
}

std::vector<Axis> ConvShape::axes() const {
  std::vector<Axis> out = {{"n", n}, {"o", filters}};
  for (const Axis& a : output_axes(window)) out.push_back(a);
  return out;
}

ConvShape conv_shape(const OpContext& ctx, int weights) {
  const Dims &x = ctx.input(0).shape, &w = ctx.input(weights).shape;
  if (x.size() < 3 || x.size() > 5)
    ctx.fail("the input is " + to_string(ctx.input(0)) + "; one to three spatial dimensions are supported");
  require_rank(ctx, weights, x.size());
  const Dims kernel(w.begin() + 2, w.end());
  if (ctx.get_ints("kernel_shape", kernel) != kernel)
    ctx.fail("`kernel_shape` differs from the spatial dimensions of the weight " +
             to_string(ctx.input(weights)));
  ConvShape s{read_window(ctx, kernel), x[0], x[1], w[0], ctx.get_int("group", 1)};
  if (s.group < 1) ctx.fail("`group` is " + std::to_string(s.group) + ", at least 1 is needed");
  if (!s.channels.known() && must_equal(s.channels, w[1] * s.group, "they are the channels of a weight"))
    s.channels = w[1] * s.group;
  if (s.channels % s.group != 0 || s.filters % s.group != 0)
    ctx.fail("`group` = " + std::to_string(s.group) + " divides not both the " + std::to_string(s.channels) +
             " input and the " + std::to_string(s.filters) + " output channels");
  if (w[1] != s.channels / s.group)
    ctx.fail("the weight is " + to_string(ctx.input(weights)) + ", its second dimension must be " +
             std::to_string(s.channels / s.group) + ": input channels / group");
  return s;
}

ConvShape ConvShape::typical() const {
  const Window& w = window;
  return {{w.input.typical(), w.kernel.typical(), w.stride.typical(), w.dilation.typical(),
           w.pad_begin.typical(), w.pad_end.typical(), w.output.typical()},
          n.typical(),
          channels.typical(),
          filters.typical(),
          group};
}

void convolve(FuncBuilder& f, const ConvShape& s, const BuildTensor& p, const BuildTensor& w,
              const BuildTensor& out, const Factor& left, const Factor& right) {
  const Window& win = s.window;
  const Dim channels = s.channels / s.group, filters = s.filters / s.group;
  std::vector<Axis> reduced = {{"c", channels}};
  for (const Axis& a : kernel_axes(win)) reduced.push_back(a);
  f.reduce(out, s.axes(), reduced, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    const Expr first = s.group == 1 ? Expr(0) : i[1] / filters.expr() * channels.expr();
    Exprs p_at = {i[0], first + r[0]}, w_at = {i[1], r[0]};
    for (size_t d = 0; d < win.rank(); ++d) {
      p_at.push_back(input_index(win, d, i[d + 2], r[d + 1]));
      w_at.push_back(r[d + 1]);
    }
    return left(p.at(p_at), i) * right(w.at(w_at), i);
  });
}

void require_bias(const OpContext& ctx, const Dim& filters) {
  if (!ctx.has_input(2)) return;
  require_same_type(ctx, 0, 2);
  if (ctx.input(2).shape != Dims{filters})
    ctx.fail("the bias is " + to_string(ctx.input(2)) + ", it must be " +
             to_string(ctx.input(0).dtype, Dims{filters}));
}

namespace {

std::vector<TensorType> infer_conv(const OpContext& ctx) {
  require_type(ctx, 0, kConvolved);
  const DType type = product_type(ctx, 0, 1);
  const ConvShape s = conv_shape(ctx, 1);
  require_bias(ctx, s.filters);
  return {{type, s.output()}};
}

// P (only where some window looks outside), T or the output itself (n o y x | c r s), and the bias in a block
// of its own: there it is an epilogue like any other, which fuses with what follows.
void build_conv(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const ConvShape s = conv_shape(ctx, 1);
  const bool has_bias = in.size() > 2 && in[2];
  const DType type = out[0].dtype(), sums = is_half(type) ? DType::f32 : type;
  const BuildTensor x = padded_input(b, s.window, in[0], constant_like(in[0], 0));
  const bool plain = !has_bias && sums == type;
  const BuildTensor t = plain ? out[0] : b.temp("T", {sums, out[0].shape});
  convolve(b, s, x, in[1], t, widened(sums), widened(sums));
  if (plain) return;
  b.compute(out[0], s.axes(), [&](const Exprs& i) {
    const Expr y = has_bias ? t.at(i) + make::cast({sums, 1}, in[2](i[1])) : t.at(i);
    return make::cast({type, 1}, y);
  });
}

}  // namespace

void register_conv(Rows& rows) {
  rows.push_back({.name = "Conv",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X W B",
                  .infer = infer_conv,
                  .build = build_conv,
                  .note = "f16 and bf16 are summed in f32 and rounded once"});
}

}  // namespace nestor::ops
