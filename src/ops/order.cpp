// Order: indices along the last dimension, of the largest element first, equal ones as they stand. A merge
// sort.
#include "nestor/parse.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// Runs of `width` places are in order; two of them become one.
constexpr const char* kText = R"(
func Order[R, N](in Keys: i64[R,N], out Y: i64[R,N]) {
  for r in R {
    block Y(vr: S R = r) {
      alloc W: i64[3] { alloc I: i64[N] { alloc J: i64[N] {
        for i in N { I[i] = i }
        W[0] = 1
        for pass in 31 {
          if W[0] < N {
            let width = W[0] {
              let pairs = (N + 2*width - 1) / (2*width) {
                for pair in pairs {
                  let first = pair*2*width {
                    let middle = min(first + width, N) {
                      let end = min(first + 2*width, N) {
                        W[1] = first
                        W[2] = middle
                        let count = end - first {
                          for k in count {
                            if (if W[1] >= middle then false
                                else if W[2] >= end then true
                                else Keys[vr,I[W[1]]] >= Keys[vr,I[W[2]]]) {
                              J[first+k] = I[W[1]]
                              W[1] = W[1] + 1
                            } else {
                              J[first+k] = I[W[2]]
                              W[2] = W[2] + 1
                            }
                          }
                        }
                      }
                    }
                  }
                }
                for i in N { I[i] = J[i] }
                W[0] = 2*width
              }
            }
          }
        }
        for i in N { Y[vr,i] = I[i] }
      } } }
    }
  }
}
)";

std::vector<TensorType> infer(const OpContext& ctx) {
  require_rank(ctx, 0, 2);
  return {{DType::i64, ctx.input(0).shape}};
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  static const PrimFunc parsed = parse_func(kText, "Order");
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
