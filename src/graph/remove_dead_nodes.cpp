#include "src/graph/edit.h"
#include "src/graph/found_sizes.h"
#include "src/graph/passes.h"

namespace nestor {

// Walks backward: a node is alive where one of its outputs is read by a living node or is an output of the
// graph. So is one that finds a size: who needs it reads no value.
void remove_dead_nodes(Graph& g, const EvaluateFn&) {
  std::vector<bool> read(g.values.size(), false), alive(g.nodes.size(), false);
  for (ValueId v : g.outputs) read[static_cast<size_t>(v)] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    alive[i] = is_found_size(g.nodes[i]);
    for (ValueId v : g.nodes[i].outputs) alive[i] = alive[i] || (v >= 0 && read[static_cast<size_t>(v)]);
    if (!alive[i]) continue;
    for (ValueId v : g.nodes[i].inputs)
      if (v >= 0) read[static_cast<size_t>(v)] = true;
  }
  // Outputs that nobody reads are no longer asked for, save the first, which says what the node makes.
  for (Node& n : g.nodes)
    for (size_t k = 1; k < n.outputs.size(); ++k)
      if (n.outputs[k] >= 0 && !read[static_cast<size_t>(n.outputs[k])]) n.outputs[k] = -1;
  compact(g, alive);
}

}  // namespace nestor
