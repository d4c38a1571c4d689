// Trilu: a triangle of each matrix.
#include <algorithm>
#include <optional>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// The number that input i holds, which the model must know; `missing` where it isn't given.
Dim static_number(const OpContext& ctx, int i, const char* what, std::optional<int64_t> missing) {
  if (!ctx.has_input(i) && missing) return *missing;
  const Dims values = ctx.ints_from(i, what);
  if (values.size() != 1)
    ctx.fail(std::string("`") + what + "` has " + std::to_string(values.size()) + " elements, not one");
  return values[0];
}

Dim diagonal(const OpContext& ctx) {
  return static_number(ctx, 1, "k", 0);
}

std::vector<TensorType> infer_trilu(const OpContext& ctx) {
  if (ctx.input(0).shape.size() < 2) ctx.fail("the input is " + to_string(ctx.input(0)) + ", no matrix");
  diagonal(ctx);
  return {ctx.input(0)};
}

// Column - row is at least k above, at most k below.
void build_trilu(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const bool upper = ctx.get_int("upper", 1) != 0;
  // Beyond the matrix all are alike.
  const Dim rows = out[0].shape[out[0].shape.size() - 2], columns = out[0].shape.back();
  const Expr k = min(max(diagonal(ctx), -rows), columns).expr();
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    const Expr &row = i[i.size() - 2], &column = i.back();
    return make::select(upper ? ge(column, row + k) : le(column, row + k), in[0].at(i),
                        constant_like(in[0], 0));
  });
}

}  // namespace

void register_triangle(Rows& rows) {
  rows.push_back({.name = "Trilu",
                  .since = 14,
                  .min_inputs = 1,
                  .max_inputs = 2,
                  .pattern = Pattern::injective,
                  .infer = infer_trilu,
                  .build = build_trilu,
                  .static_inputs = {1}});
}

}  // namespace nestor::ops
