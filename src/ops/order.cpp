// Order: indices along the last dimension, of the largest element first, equal ones as they stand.
#include "nestor/parse.h"
#include "src/ops/common.h"
#include "src/ops/merge_sort.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

std::string text() {
  return R"(
func Order[R, N](in Keys: i64[R,N], out Y: i64[R,N]) {
  for r in R {
    block Y(vr: S R = r) {
      alloc W: i64[3] { alloc I: i64[N] { alloc J: i64[N] {
        for i in N { I[i] = i })" +
         merge_sort("N", "Keys[vr,{0}] >= Keys[vr,{1}]") + R"(
        for i in N { Y[vr,i] = I[i] }
      } } }
    }
  }
}
)";
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_rank(ctx, 0, 2);
  return {{DType::i64, ctx.input(0).shape}};
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  static const PrimFunc parsed = parse_func(text(), "Order");
  const Dims& shape = ctx.input(0).shape;
  b.inlined(parsed, {in[0], out[0]}, {shape[0].expr(), shape[1].expr()});
}

}  // namespace

void register_order(Rows& rows) {
  rows.push_back({.name = "Order",
                  .domain = "nestor",
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::opaque,
                  .params = "K",
                  .infer = infer,
                  .build = build,
                  .note = "a merge sort of integers; made by the compiler, not by models"});
}

}  // namespace nestor::ops
