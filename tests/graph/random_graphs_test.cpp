// Every pass keeps what a graph computes.
#include <cmath>

#include "catch.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

Values inputs_of(const Graph& g, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values out;
  for (const ValueId v : g.inputs) {
    Tensor t(value_of(g, v).type.dtype, value_of(g, v).type.shape);
    for (int64_t i = 0; i < t.size(); ++i) {
      const auto bits = static_cast<int64_t>(random() >> 40);
      t.set(i, is_float(t.dtype())
                   ? std::ldexp(static_cast<double>(bits), -22) - 2
                   : static_cast<double>(t.dtype() == DType::i8 ? bits % 256 - 128 : bits % 256));
    }
    out[value_of(g, v).name] = t;
  }
  return out;
}

// Makers come before readers, and each value knows its own.
void check_whole(const Graph& g) {
  std::vector<int> maker(g.values.size(), -1);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (const ValueId v : g.nodes[i].inputs)
      if (v >= 0) REQUIRE(maker[static_cast<size_t>(v)] == value_of(g, v).producer);
    for (const ValueId v : g.nodes[i].outputs)
      if (v >= 0) maker[static_cast<size_t>(v)] = static_cast<int>(i);
  }
  for (size_t v = 0; v < g.values.size(); ++v) REQUIRE(g.values[v].producer == maker[v]);
}

}  // namespace

TEST_CASE("Every pass keeps the values of random graphs") {
  constexpr double kRounding = 2e-4, kOfHalves = 2e-2;
  std::map<std::string, int> changed;  // graphs, by pass
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    const bool halves = seed % 4 == 0;
    const double rounding = halves ? kOfHalves : kRounding;
    Graph g = RandomGraph(seed).make(14, halves);
    const Values inputs = inputs_of(g, seed), wanted = run_unfused(g, inputs);
    std::string text = print(g);
    for (const bool dots : {true, false}) {
      Graph h = g;
      std::string before = text;
      for (const GraphPass& pass : graph_pipeline({.lanes = 8, .dots = dots})) {
        INFO("seed " << seed << ", " << pass.name << (dots ? "" : " without dots") << " of\n" << before);
        pass.run(h, evaluate_by_interpreter);
        check_whole(h);
        const std::string after = print(h);
        if (after == before) continue;
        ++changed[pass.name];
        INFO("which is now\n" << after);
        check_close(run_unfused(h, inputs), wanted, rounding);
        before = after;
      }
      INFO("seed " << seed << ", fused\n" << before);
      check_close(run(h, partition(h), inputs), wanted, rounding);
    }
  }
  // A test of a pass that never has anything to do is none.
  for (const GraphPass& pass : graph_pipeline()) {
    INFO(pass.name);
    const std::string name = pass.name;
    if (name == "optimize_bodies" || name == "pack_weights")
      continue;  // there are no loops and no large weights
    CHECK(changed[pass.name] > 1);
  }
}
