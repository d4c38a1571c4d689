// BatchNormalization in training mode normalizes by the statistics of the batch itself: each channel over all
// images and places. That is InstanceNormalization of one image whose rows are the channels:
//
//   x [N, C, ...] -> [1, C, N * ...] -> InstanceNormalization -> [N, C, ...]
//
// Networks with standardized weights are exported so, with the weights as x and their filters as channels.
#include "nestor/ops.h"
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"

namespace nestor {

namespace {

class BatchNormSpeller : Expansion {
 public:
  using Expansion::Expansion;

  void run() {
    const ValueId x = n_.inputs[0];
    const Dims shape = type(x).shape;
    std::vector<int64_t> channels_first(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) channels_first[d] = static_cast<int64_t>(d);
    std::swap(channels_first[0], channels_first[1]);
    const ValueId rows =
        reshaped(transposed(x, channels_first), {1, shape[1], product(shape) / max(shape[1], 1)});
    const double epsilon = OpContext(g_, n_).get_float("epsilon", 1e-5);
    const ValueId y =
        add("InstanceNormalization", {rows, n_.inputs[1], n_.inputs[2]}, {{"epsilon", epsilon}});
    Dims swapped = shape;
    std::swap(swapped[0], swapped[1]);
    give(0, transposed(reshaped(y, swapped), channels_first));
  }
};

}  // namespace

bool spell_out_batch_norm(Graph& g, const Node& n, std::vector<Node>& nodes) {
  if (!n.domain.empty() || n.op != "BatchNormalization" || OpContext(g, n).get_int("training_mode", 0) == 0)
    return false;
  BatchNormSpeller(g, n, nodes).run();
  return true;
}

}  // namespace nestor
