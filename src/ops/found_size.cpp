// FoundSize: a count, which whoever runs the model takes for the size of a symbol (src/graph/found_sizes.h).
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

void register_found_size(Rows& rows) {
  rows.push_back({.name = "FoundSize",
                  .domain = "nestor",
                  .min_inputs = 1,
                  .max_inputs = 2,
                  .pattern = Pattern::opaque,
                  .infer = [](const OpContext&) -> std::vector<TensorType> {
                    return {{DType::i64, {}}};
                  },
                  .build =
                      [](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                        b.compute(out[0], {}, [&](const Exprs&) { return in[0].at({}); });
                      },
                  .static_inputs = {1}});
}

}  // namespace nestor::ops
