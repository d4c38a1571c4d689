// Nodes whose inputs are all constants are run now. They run as the functions that they would be at run time,
// so an operator has one implementation, its loop nest.
#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/graph/views.h"

namespace nestor {

namespace {

constexpr int64_t kMostGrowth = 4;  // bytes that stand for f32

// A result much larger than what it is made from (a table from a ConstantOfShape) is better computed than
// shipped.
bool worth_storing(const Graph& g, const Node& n) {
  int64_t read = 0, made = 0;
  for (ValueId v : n.inputs)
    if (v >= 0) read += constant_of(g, v).bytes();
  for (ValueId v : n.outputs)
    if (v >= 0) made += product(value_of(g, v).type.shape) * bytes_of(value_of(g, v).type.dtype);
  return made <= (int64_t{1} << 20) + kMostGrowth * read;
}

bool inputs_constant(const Graph& g, const Node& n) {
  for (ValueId v : n.inputs)
    if (v >= 0 && !is_constant(g, v)) return false;
  return true;
}

}  // namespace

void fold_constants(Graph& g, const EvaluateFn& evaluate) {
  std::vector<bool> keep(g.nodes.size(), true);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (!inputs_constant(g, n)) continue;
    if (is_view(g, n)) {
      Value& out = value_of(g, n.outputs[0]);
      out.constant = constant_of(g, n.inputs[0]).reshaped(out.type.shape);
      keep[i] = false;
    } else if (worth_storing(g, n)) {
      keep[i] = !evaluate_node(g, n, evaluate);
    }
  }
  compact(g, keep);
}

}  // namespace nestor
