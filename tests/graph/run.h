// Models as text, and running them by the interpreter: node by node, and as partitioned.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

Model model_of(const std::string& json);  // a shorthand model
Graph graph_of(const std::string& json, const BuildOptions& options = {});

using Values = std::map<std::string, Tensor>;
Values random_inputs(const Graph& g, uint64_t seed = 1);
// Outputs by name. Follows calls in order, resolves aliases, copies nothing twice; fails the test on a value
// read before it is made.
Values run(const Graph& g, const Partition& p, const Values& inputs);
Values run_unfused(const Graph& g, const Values& inputs);
void check_close(const Values& a, const Values& b, double tolerance);  // relative to 1 + |b|

// Runs the graph before and after `change`, and partitioned with and without fusion; all must agree.
template <class F>
void check_unchanged(Graph& g, F&& change, double tolerance = 1e-5) {
  const Values inputs = random_inputs(g);
  const Values before = run_unfused(g, inputs);
  change(g);
  check_close(run_unfused(g, inputs), before, tolerance);
  check_close(run(g, partition(g), inputs), before, tolerance);
}

int count(const Graph& g, const std::string& op);

}  // namespace nestor
