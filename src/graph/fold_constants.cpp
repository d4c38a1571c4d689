// Nodes whose inputs are all constants are run now. They run as the functions that they would be at run time,
// so an operator has one implementation, its loop nest.
#include "src/graph/edit.h"
#include "src/graph/fold_budget.h"
#include "src/graph/passes.h"
#include "src/graph/views.h"

namespace nestor {

namespace {

// What scheduled kernels do in a few seconds, and unscheduled ones in a minute or two.
constexpr double kMostWork = 1e11;

}  // namespace

// A constant goes with its last reader, so that a chain of them takes no more memory than its longest part.
void fold_constants(Graph& g, const EvaluateFn& evaluate) {
  FoldBudget budget(g, kMostWork);
  std::vector<int> uses = count_uses(g);
  std::vector<bool> keep(g.nodes.size(), true);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (is_view(g, n) && is_constant(g, n.inputs[0]))
      budget.fold_view(g, n);
    else if (!budget.fold(g, n, evaluate))
      continue;
    keep[i] = false;
    for (const ValueId v : n.inputs)
      if (v >= 0 && --uses[static_cast<size_t>(v)] == 0 && is_constant(g, v)) budget.let_go(value_of(g, v));
  }
  compact(g, keep);
}

}  // namespace nestor
