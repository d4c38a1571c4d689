// EyeLike, whose result is known once its input's shape is.
#include <algorithm>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

std::vector<TensorType> infer_eye(const OpContext& ctx) {
  require_rank(ctx, 0, 2);
  ctx.get_int("k", 0);
  return {{ctx.has_attr("dtype") ? type_attribute(ctx, "dtype") : ctx.input(0).dtype, ctx.input(0).shape}};
}

// Ones on the diagonal column - row = k.
bool is_one(int64_t row, int64_t column, int64_t k) {
  int64_t distance = 0;
  return !__builtin_sub_overflow(column, row, &distance) && distance == k;
}

void build_eye(const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
  // Beyond the matrix all are alike.
  const Dims& shape = out[0].shape;
  const Expr k = min(max(ctx.get_int("k", 0), -shape[0]), shape[1]).expr();
  b.compute(out[0], axes_of(shape), [&](const Exprs& i) {
    return make::select(eq(i[1], i[0] + k), constant_like(out[0], 1), constant_like(out[0], 0));
  });
}

// Larger ones are computed.
Tensor eye(const OpContext& ctx) {
  constexpr int64_t kSmall = 4096;
  const TensorType type = infer_eye(ctx)[0];
  const int64_t rows = type.shape[0], columns = type.shape[1];
  if (product(type.shape) > kSmall) return {};
  Tensor out(type.dtype, type.shape);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out.set_int(i * columns + j, is_one(i, j, ctx.get_int("k", 0)));
  return out;
}

}  // namespace

void register_known(Rows& rows) {
  rows.push_back({.name = "EyeLike",
                  .since = 9,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::injective,
                  .infer = infer_eye,
                  .build = build_eye,
                  .static_inputs = {0},
                  .fold = eye});
}

}  // namespace nestor::ops
