// Conv in one to three spatial dimensions, any group, stride, padding, dilation. Three blocks at most: P pads
// the input, T multiplies and adds up over (c, r, s), the output adds the bias. One loop nest n o y x c r s
// serves every group count: output channel o reads the C/G input channels of its group, which begin at o /
// (O/G) * (C/G).
#include "src/ops/registry.h"
#include "src/ops/window.h"

namespace nestor::ops {

namespace {

struct ConvShape {
  Window window;
  int64_t n, channels, filters, group;
};

// Everything about a node that its types say; fails where they don't make a convolution.
ConvShape conv_shape(const OpContext& ctx) {
  const Dims &x = ctx.input(0).shape, &w = ctx.input(1).shape;
  if (x.size() < 3 || x.size() > 5)
    ctx.fail("the input is " + to_string(ctx.input(0)) + "; one to three spatial dimensions are supported");
  require_rank(ctx, 1, x.size());
  const Dims kernel(w.begin() + 2, w.end());
  if (ctx.get_ints("kernel_shape", kernel) != kernel)
    ctx.fail("`kernel_shape` differs from the spatial dimensions of the weight " + to_string(ctx.input(1)));
  ConvShape s{read_window(ctx, kernel), x[0], x[1], w[0], ctx.get_int("group", 1)};
  if (s.group < 1) ctx.fail("`group` is " + std::to_string(s.group) + ", at least 1 is needed");
  if (s.channels % s.group != 0 || s.filters % s.group != 0)
    ctx.fail("`group` = " + std::to_string(s.group) + " divides not both the " + std::to_string(s.channels) +
             " input and the " + std::to_string(s.filters) + " output channels");
  if (w[1] != s.channels / s.group)
    ctx.fail("the weight is " + to_string(ctx.input(1)) + ", its second dimension must be " +
             std::to_string(s.channels / s.group) + ": input channels / group");
  return s;
}

std::vector<TensorType> infer_conv(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  require_same_type(ctx, 0, 1);
  const ConvShape s = conv_shape(ctx);
  if (ctx.has_input(2)) {
    require_same_type(ctx, 0, 2);
    if (ctx.input(2).shape != Dims{s.filters})
      ctx.fail("the bias is " + to_string(ctx.input(2)) + ", it must be " +
               to_string(ctx.input(0).dtype, Dims{s.filters}));
  }
  Dims out = {s.n, s.filters};
  out.insert(out.end(), s.window.output.begin(), s.window.output.end());
  return {{ctx.input(0).dtype, out}};
}

// P (only where some window looks outside), T or the output itself (n o y x | c r s), and the bias in a block
// of its own: there it is an epilogue like any other, which fuses with what follows.
void build_conv(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const ConvShape s = conv_shape(ctx);
  const Window& win = s.window;
  const BuildTensor& w = in[1];
  const bool has_bias = in.size() > 2 && in[2];
  const BuildTensor x = padded_input(b, win, in[0], constant_like(in[0], 0));
  const BuildTensor t = has_bias ? b.temp("T", {out[0].dtype(), out[0].shape}) : out[0];

  const int64_t channels = s.channels / s.group, filters = s.filters / s.group;
  std::vector<Axis> spatial = {{"n", s.n}, {"o", s.filters}};
  for (const Axis& a : output_axes(win)) spatial.push_back(a);
  std::vector<Axis> reduced = {{"c", channels}};
  for (const Axis& a : kernel_axes(win)) reduced.push_back(a);
  b.reduce(t, spatial, reduced, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    const Expr first = s.group == 1 ? Expr(0) : i[1] / Expr(filters) * Expr(channels);
    Exprs x_at = {i[0], first + r[0]}, w_at = {i[1], r[0]};
    for (size_t d = 0; d < win.rank(); ++d) {
      x_at.push_back(input_index(win, d, i[d + 2], r[d + 1]));
      w_at.push_back(r[d + 1]);
    }
    return x.at(x_at) * w.at(w_at);
  });
  if (has_bias) b.compute(out[0], spatial, [&](const Exprs& i) { return t.at(i) + in[2](i[1]); });
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
                  .build = build_conv});
}

}  // namespace nestor::ops
