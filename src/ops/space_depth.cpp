// DepthToSpace and SpaceToDepth: squares of block x block pixels lie side by side, or as channels. One loop
// for each part of an index, so that every access is affine: it is a transposition.
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

struct Squares {
  int64_t block;
  bool channels_outside;  // CRD: a channel's pixels follow each other; else a pixel's channels do
  Dim n, channels, h, w;  // of pixels that are channels: channels without the squares, the smaller image
};

Squares squares_of(const OpContext& ctx) {
  const bool to_space = ctx.node().op == "DepthToSpace";
  require_rank(ctx, 0, 4);
  const std::string mode = ctx.get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") ctx.fail("`mode` is \"" + mode + "\"", "DCR or CRD");
  const Dims& x = ctx.input(0).shape;
  const int64_t block = ctx.get_int("blocksize", 0);
  if (block < 1 || block > 1 << 15) ctx.fail("`blocksize` is missing, or no size of a square");
  const auto divided = [&](size_t d, int64_t by, const char* what) {
    if (!must_equal(x[d] % by, 0, std::string("they are ") + what + " of squares"))
      ctx.fail("the input is " + to_string(ctx.input(0)) + ", its " + what + " don't divide by " +
               std::to_string(by));
    return x[d] / by;
  };
  Squares s{block, mode == "CRD", x[0], x[1], x[2], x[3]};
  if (to_space) {
    s.channels = divided(1, block * block, "channels");
  } else {
    s.h = divided(2, block, "rows");
    s.w = divided(3, block, "columns");
  }
  return s;
}

std::vector<TensorType> infer_squares(const OpContext& ctx) {
  const Squares s = squares_of(ctx);
  const int64_t b = s.block;
  const bool to_space = ctx.node().op == "DepthToSpace";
  return {{ctx.input(0).dtype,
           to_space ? Dims{s.n, s.channels, s.h * b, s.w * b} : Dims{s.n, s.channels * b * b, s.h, s.w}}};
}

void build_squares(const OpContext& ctx, FuncBuilder& f, const Tensors& in, const Tensors& out) {
  const Squares s = squares_of(ctx);
  const Expr b(s.block);
  const auto channel = [&](const Exprs& i) {  // n c h bh w bw
    const Expr pixel = i[3] * b + i[5];
    return s.channels_outside ? i[1] * b * b + pixel : pixel * s.channels.expr() + i[1];
  };
  const auto deep = [&](const Exprs& i) { return Exprs{i[0], channel(i), i[2], i[4]}; };
  const auto wide = [&](const Exprs& i) { return Exprs{i[0], i[1], i[2] * b + i[3], i[4] * b + i[5]}; };
  const std::vector<Axis> axes = {{"n", s.n},      {"c", s.channels}, {"h", s.h},
                                  {"bh", s.block}, {"w", s.w},        {"bw", s.block}};
  const bool to_space = ctx.node().op == "DepthToSpace";
  f.compute(
      out[0], axes, [&](const Exprs& i) { return in[0].at(to_space ? deep(i) : wide(i)); },
      [&](const Exprs& i) { return to_space ? wide(i) : deep(i); });
}

}  // namespace

void register_space_depth(Rows& rows) {
  for (const char* name : {"DepthToSpace", "SpaceToDepth"})
    rows.push_back({.name = name,
                    .since = 1,
                    .min_inputs = 1,
                    .max_inputs = 1,
                    .pattern = Pattern::injective,
                    .infer = infer_squares,
                    .build = build_squares});
}

}  // namespace nestor::ops
