// How much constant folding may store and compute. A node of known inputs is worth folding as long as what it
// makes isn't much more than what it is made of; and a chain of such nodes, each harmless, grows without end.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "nestor/graph.h"

namespace nestor {

class FoldBudget {
 public:
  // `work`: how often innermost statements may run, for all nodes together. Bytes are relative to what the
  // graph's constants have now.
  FoldBudget(const Graph& g, double work);

  // Computes n's outputs, which become constants; the node stays. False where an input isn't known, and where
  // the node is better left to run time.
  bool fold(Graph& g, const Node& n, const EvaluateFn& evaluate);
  void fold_view(Graph& g, const Node& n);  // whose input is known: its output shares the bytes
  void let_go(Value& v);                    // a constant that nobody reads any more

 private:
  int64_t bytes_;  // left
  double work_;
  std::unordered_map<const void*, int> holders_;  // how many values have these bytes
};

}  // namespace nestor
