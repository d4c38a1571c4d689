// Values of several elements that are computed from sizes, where a kernel reads them or the model gives them:
// a node of nestor.Sizes writes them.
#include <map>

#include "src/graph/control_flow.h"
#include "src/graph/edit.h"
#include "src/graph/elements.h"

namespace nestor {

void write_sizes(Graph& g) {
  std::map<ValueId, ValueId> written;
  std::vector<Node> nodes;
  const auto has_elements = [&](ValueId v) {
    return v >= 0 && value_of(g, v).producer < 0 && !value_of(g, v).elements.empty();
  };
  const auto write = [&](ValueId v) {
    const auto [at, fresh] = written.try_emplace(v, -1);
    if (!fresh) return at->second;
    at->second = add_value(g, value_of(g, v).name, value_of(g, v).type);
    nodes.push_back({"Sizes", "", 1, {v}, {at->second}, {}, "nestor"});
    return at->second;
  };
  // How often a loop goes is for the plan, which reads sizes.
  const auto is_read = [&](const Node& n, size_t i) {
    if (has_bodies(n)) return !(is_loop(n) && i == 0);
    return input_kind(*find_op(n.domain, n.op, n.opset), OpContext(g, n), static_cast<int>(i)) ==
           InputKind::parameter;
  };
  for (Node& n : g.nodes) {
    std::vector<ValueId> inputs = n.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (has_elements(inputs[i]) && is_read(n, i)) inputs[i] = write(inputs[i]);
    n.inputs = std::move(inputs);
  }
  for (ValueId& v : g.outputs) {
    if (!has_elements(v)) continue;
    const ValueId sizes = v;
    v = write(sizes);
    std::swap(value_of(g, v).name, value_of(g, sizes).name);
  }
  if (nodes.empty()) return;
  nodes.insert(nodes.end(), std::make_move_iterator(g.nodes.begin()), std::make_move_iterator(g.nodes.end()));
  replace_nodes(g, std::move(nodes));
}

}  // namespace nestor
