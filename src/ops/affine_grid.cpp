// AffineGrid: the places, (x, y) or (x, y, z) from -1 to 1, at which GridSample reads an image that an affine
// map moves: theta [N, 2, 3] or [N, 3, 4] times the place of each element of the result, 1 behind it.
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

Dims size_of(const OpContext& ctx) {
  const Dims size = ctx.ints_from(1, "size");
  if (size.size() != 4 && size.size() != 5)
    ctx.fail("`size` has " + std::to_string(size.size()) + " elements, it must have 4, N C H W, or 5");
  for (const Dim& s : size)
    if (s < 0 || s > kMostElements) ctx.fail("`size` holds " + to_string(s));
  return size;
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  const Dims size = size_of(ctx);
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  require_shape(ctx, 0, {size[0], spatial, spatial + 1});
  ctx.get_int("align_corners", 0);
  Dims out = {size[0]};
  out.insert(out.end(), size.begin() + 2, size.end());
  out.push_back(spatial);
  return {{ctx.input(0).dtype, out}};
}

// The middle of element i of `size`; with `corners` those of the first and the last are -1 and 1. The
// numerator is a whole number, so that the centre is 0 whether or not what follows is contracted.
Expr place(const Expr& i, const Dim& size, bool corners, Type t) {
  if (corners)  // of one element the numerator is 0
    return make::cast(t, i * Expr(2) - (size - 1).expr()) * one_over(max(size - 1, 1), t);
  return make::cast(t, i * Expr(2) + (1 - size).expr()) * one_over(size, t);
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const bool corners = ctx.get_int("align_corners", 0) != 0;
  const Dims& shape = out[0].shape;
  const auto spatial = static_cast<size_t>(shape.back());
  b.compute(out[0], axes_of(shape), [&](const Exprs& i) {
    const Expr &n = i.front(), &row = i.back();
    Expr sum = in[0](n, row, Expr(shape.back()));
    for (size_t k = 0; k < spatial; ++k) {
      const size_t axis = spatial - k;  // x is the last one
      const Expr at = place(i[axis], shape[axis], corners, {out[0].dtype(), 1});
      sum = sum + in[0](n, row, Expr(static_cast<int64_t>(k))) * at;
    }
    return sum;
  });
}

}  // namespace

void register_affine_grid(Rows& rows) {
  rows.push_back({.name = "AffineGrid",
                  .since = 20,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::injective,
                  .params = "T",
                  .infer = infer,
                  .build = build,
                  .static_inputs = {1}});
}

}  // namespace nestor::ops
