// The order of nodes whose sizes others find.
#include "src/graph/found_sizes.h"

#include <algorithm>

#include "catch.h"
#include "src/graph/edit.h"
#include "tests/graph/run.h"

using namespace nestor;

TEST_CASE("what has a size that values decide stands behind the node that finds it") {
  Graph g = graph_of(
      R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [9]}], "outputs": ["y", "z"],
    "nodes": [{"op": "NonZero", "inputs": ["x"], "outputs": ["p"]}, {"op": "Shape", "inputs": ["p"], "outputs": ["s"]},
              {"op": "ConstantOfShape", "inputs": ["s"], "outputs": ["c"]}, {"op": "Exp", "inputs": ["c"], "outputs": ["y"]},
              {"op": "Relu", "inputs": ["x"], "outputs": ["z"]}]})");
  const auto place = [&](const auto& is) {
    return std::find_if(g.nodes.begin(), g.nodes.end(), is) - g.nodes.begin();
  };
  const auto named = [](const char* op) { return [=](const Node& n) { return n.op == op; }; };
  // The zeros and their exponentials read no value that leads to the size.
  std::vector<Node> nodes = g.nodes;
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const Node& n) { return n.op == "ConstantOfShape" || n.op == "Exp"; });
  replace_nodes(g, std::move(nodes));
  REQUIRE(place(named("ConstantOfShape")) < place(is_found_size));
  order_found_sizes(g);
  CHECK(place(is_found_size) < place(named("ConstantOfShape")));
  CHECK(place(named("ConstantOfShape")) < place(named("Exp")));
  CHECK(place(named("ReduceSum")) < place(is_found_size));
  CHECK(g.nodes.size() > 5);
}
