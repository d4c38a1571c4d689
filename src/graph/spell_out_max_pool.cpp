// A MaxPool that is asked where its maxima stand: they are found first, by the operator that knows how, and
// looked up in their windows then.
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"

namespace nestor {

namespace {

class MaxPoolSpeller : Expansion {
 public:
  using Expansion::Expansion;

  void run() {
    Attrs attrs = n_.attrs;
    attrs.erase("storage_order");
    const ValueId best = add("MaxPool", {n_.inputs[0]}, attrs);
    give(1, add("MaxPoolIndices", {n_.inputs[0], best}, n_.attrs, "nestor"));
    if (wants(0)) give(0, best);
  }
};

}  // namespace

bool spell_out_max_pool(Graph& g, const Node& n, std::vector<Node>& nodes) {
  if (!n.domain.empty() || n.op != "MaxPool" || n.outputs.size() < 2 || n.outputs[1] < 0) return false;
  MaxPoolSpeller(g, n, nodes).run();
  return true;
}

}  // namespace nestor
