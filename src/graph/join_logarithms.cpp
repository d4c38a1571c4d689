// The logarithm of what lies close to 1 has lost its digits, and that of what became 0 is -infinity, where
// the logarithm itself is an ordinary number. Exporters write LogSigmoid and LogSoftmax as two nodes:
//
//   Log(Sigmoid(x)) = -Softplus(-x)        Log(Softmax(x)) = LogSoftmax(x)
#include "src/graph/edit.h"
#include "src/graph/passes.h"

namespace nestor {

void join_logarithms(Graph& g, const EvaluateFn&) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node n = g.nodes[i];
    const int producer = is_op(n, "Log") ? value_of(g, n.inputs[0]).producer : -1;
    const Node* of = producer < 0 ? nullptr : &g.nodes[static_cast<size_t>(producer)];
    const auto node = [&](const char* op, ValueId in, ValueId out) {
      nodes.push_back({op, n.name, of->opset, {in}, {out}, {}, ""});
      return out;
    };
    const auto temporary = [&](const char* name) {
      return add_value(g, value_of(g, n.outputs[0]).name + name, value_of(g, n.outputs[0]).type);
    };
    if (of && is_op(*of, "Sigmoid")) {
      const ValueId negated = node("Neg", of->inputs[0], temporary("_negated"));
      node("Neg", node("Softplus", negated, temporary("_softplus")), n.outputs[0]);
    } else if (of && is_op(*of, "Softmax")) {
      node("LogSoftmax", of->inputs[0], n.outputs[0]);
      nodes.back().attrs = of->attrs;
    } else {
      nodes.push_back(n);
    }
  }
  replace_nodes(g, std::move(nodes));
}

}  // namespace nestor
