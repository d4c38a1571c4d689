// A graph evaluated node by node in f64, once without noise and a few times with it: what GraphOracle
// compares a model with. Bodies of loops and branches are graphs that are evaluated again and again.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nestor/graph.h"
#include "nestor/graph_oracle.h"
#include "nestor/target.h"

namespace nestor {

inline constexpr int kRuns = 1 + GraphOracle::kNoisy;  // the first without noise
using Runs = std::array<Tensor, kRuns>;                // of one value; handles of one tensor where they agree

Tensor in_f64(const Tensor& t);

class NodeFunction;

class GraphRuns {
 public:
  GraphRuns(Graph g, Target target);
  ~GraphRuns();

  const Graph& graph() const { return g_; }
  double work() const;       // of a run, in operations and elements
  size_t functions() const;  // to be compiled or interpreted

  // Inputs are set, then the graph is run; values that nobody reads any more go, outputs stay. `after` sees
  // each node once it is evaluated. `salt` makes the noise another one.
  void set(ValueId v, const Runs& runs) { values_[static_cast<size_t>(v)] = runs; }
  void run(uint64_t salt = 0, const std::function<void(const Node&)>& after = {});
  Runs runs_of(ValueId v) const;
  void clear() { values_.assign(g_.values.size(), {}); }

 private:
  struct Step {
    int node = 0;
    size_t function = 0;
    std::vector<ValueId> args;
    Tensor known;  // what the operator says without computing (a shape)
    std::vector<std::unique_ptr<GraphRuns>> bodies;
  };

  const Value& value(ValueId v) const { return g_.values[static_cast<size_t>(v)]; }
  const Node& node_of(const Step& s) const { return g_.nodes[static_cast<size_t>(s.node)]; }
  std::vector<int> alive() const;
  Step step_of(int node);
  std::vector<size_t> last_uses() const;
  void evaluate(Step& step);
  void evaluate_function(const Step& step);
  // graph_runs_control.cpp
  double times(const Step& step) const;
  void evaluate_loop(Step& step);
  void evaluate_branch(Step& step);

  Graph g_;
  Target target_;
  std::vector<Step> steps_;
  std::deque<NodeFunction> functions_;
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash_;
  std::vector<Runs> values_;
  uint64_t salt_ = 0;
};

}  // namespace nestor
