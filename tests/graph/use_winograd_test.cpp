// Winograd's convolutions work on blocks of channels: what else there is of row-major values is reordered.
#include <set>

#include "catch.h"
#include "src/graph/edit.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

std::string conv(const std::string& x, const std::string& w, const std::string& y) {
  return R"({"op": "Conv", "inputs": [")" + x + R"(", ")" + w + R"("], "outputs": [")" + y +
         R"("], "attrs": {"pads": [1, 1, 1, 1]}})";
}

// A model of `nodes`, with an input x of that many channels and square weights w1, w2.
Graph graph_of(const std::string& nodes, const std::string& outputs, int64_t channels = 32) {
  Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [2, )" +
                     std::to_string(channels) + R"(, 9, 10]}], "outputs": [)" + outputs + R"(], "nodes": [)" +
                     nodes + "]}");
  for (const char* w : {"w1", "w2"})
    m.initializers.emplace_back(w, Tensor::random(DType::f32, {channels, channels, 3, 3}, 3));
  return build_graph(m);
}

// How many Reorders `tile` wherever it applies leads to; the results are the same, by the same names.
int reorders(Graph g, int convolutions) {
  const Values inputs = {{"x", Tensor::random(DType::f32, value_of(g, g.inputs[0]).type.shape, 4)}};
  const Values before = run_unfused(g, inputs);
  const PartitionOptions how{.channel_block = 16};
  Partition p = partition(g, how);
  CHECK(use_winograd(g, p, how, {.lanes = 16, .tile = 4}, evaluate_by_interpreter) == (convolutions > 0));
  CHECK(count(g, "WinogradConv") == convolutions);
  check_close(run(g, p, inputs), before, 1e-4);
  std::set<std::string> names;
  for (const Value& v : g.values) CHECK(names.insert(v.name).second);
  return count(g, "Reorder");
}

}  // namespace

TEST_CASE("What a Winograd convolution reads and makes is reordered where it is row major") {
  CHECK(reorders(graph_of(conv("x", "w1", "y"), R"("y")"), 1) == 2);
  CHECK(reorders(graph_of(conv("x", "w1", "y"), R"("y")", 13), 1) == 2);  // blocks that aren't full
  CHECK(reorders(graph_of(conv("x", "w1", "y"), R"("y")", 25), 1) == 2);
  const std::string relu = R"(, {"op": "Relu", "inputs": ["a"], "outputs": ["y"]})";
  CHECK(reorders(graph_of(conv("x", "w1", "a") + relu, R"("y")"), 1) == 2);
  const std::string flat = R"(, {"op": "Flatten", "inputs": ["a"], "outputs": ["y"]})";
  CHECK(reorders(graph_of(conv("x", "w1", "a") + flat, R"("y")"), 1) == 2);
}

TEST_CASE("Between Winograd convolutions nothing is reordered") {
  const std::string two = conv("x", "w1", "a") + ", " + conv("a", "w2", "y");
  CHECK(reorders(graph_of(two, R"("y")"), 2) == 2);
  CHECK(reorders(graph_of(two, R"("a", "y")"), 2) == 3);  // the first's result is asked for, too
  const std::string fork = conv("x", "w1", "a") + ", " + conv("x", "w2", "y");
  CHECK(reorders(graph_of(fork, R"("a", "y")"), 2) == 3);  // x once
  const std::string sum = R"(, {"op": "Add", "inputs": ["y", "a"], "outputs": ["z"]})";
  CHECK(reorders(graph_of(two + sum, R"("z")"), 2) == 2);
}

TEST_CASE("What is added to a Winograd convolution is in blocks like its result") {
  const std::string residual =
      conv("x", "w1", "a") + R"(, {"op": "Add", "inputs": ["a", "x"], "outputs": ["y"]})";
  const std::string two = conv("x", "w1", "a") + ", " + conv("a", "w2", "b") +
                          R"(, {"op": "Add", "inputs": ["b", "a"], "outputs": ["y"]})";
  for (const int64_t channels : {32, 25}) {
    CHECK(reorders(graph_of(residual, R"("y")", channels), 1) == 2);
    CHECK(reorders(graph_of(two, R"("a", "y")", channels), 2) == 3);
  }
}

TEST_CASE("Where blocks of channels aren't possible, nothing is reordered and no convolution is Winograd's") {
  CHECK(reorders(graph_of(conv("x", "w1", "y"), R"("y")", 20), 0) == 0);
  CHECK(reorders(graph_of(conv("x", "w1", "y"), R"("y")", 5), 0) == 0);
}
