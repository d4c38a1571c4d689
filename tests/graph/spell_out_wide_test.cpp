// Nodes of very many operands are several nodes of few, which give the same.
#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/edit.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

constexpr int kMany = 5000;

// Pieces of x, which is split into kMany rows, go through one node `op`.
Graph wide(const std::string& op, const std::string& attrs) {
  std::string pieces;
  for (int i = 0; i < kMany; ++i) pieces += (i ? ", \"s" : "\"s") + std::to_string(i) + "\"";
  return graph_of(R"({"opset": 13, "inputs": [{"name": "x", "dtype": "f32", "shape": [)" +
                  std::to_string(kMany) +
                  R"(, 2]}], "outputs": ["y"], "nodes": [{"op": "Split", "inputs": ["x"], "outputs": [)" +
                  pieces + R"(], "attrs": {"axis": -2}}, {"op": ")" + op + R"(", "inputs": [)" + pieces +
                  R"(], "outputs": ["y"], "attrs": {)" + attrs + "}}]}");
}

size_t widest(const Graph& g) {
  size_t out = 0;
  for (const Node& n : g.nodes) out = std::max({out, n.inputs.size(), n.outputs.size()});
  return out;
}

}  // namespace

TEST_CASE("What is split into thousands of pieces and put together again is what it was") {
  for (const char* axis : {"0", "-2"}) {
    const Graph g = wide("Concat", std::string(R"("axis": )") + axis);
    CHECK(widest(g) == 64);
    CHECK(g.nodes.size() < 170);
    const Values in = random_inputs(g);
    check_close(run_unfused(g, in), {{"y", in.at("x")}}, 0);
  }
}

TEST_CASE("Sums, means and extrema of thousands of operands are what they are from the first to the last") {
  for (const char* op : {"Sum", "Mean", "Max", "Min"}) {
    const Graph g = wide(op, "");
    INFO(op);
    CHECK(widest(g) == 64);
    const Values in = random_inputs(g);
    Tensor want(DType::f32, {1, 2});
    for (int64_t c = 0; c < 2; ++c) {
      const auto x = in.at("x").as<float>();
      float out = x[static_cast<size_t>(c)];
      for (size_t i = 1; i < kMany; ++i) {
        const float next = x[2 * i + static_cast<size_t>(c)];
        out = op[2] == 'x' ? std::max(out, next) : op[2] == 'n' ? std::min(out, next) : out + next;
      }
      want.set(c, op[1] == 'e' ? out / kMany : out);
    }
    check_close(run_unfused(g, in), {{"y", want}}, 0);
  }
}

TEST_CASE("Of a wide Split some pieces may be left out") {
  std::string pieces = "\"\"";
  for (int i = 1; i < kMany; ++i) pieces += i == 77 ? ", \"y\"" : ", \"\"";
  const Graph g = graph_of(R"({"opset": 13, "inputs": [{"name": "x", "dtype": "f32", "shape": [)" +
                           std::to_string(kMany) + R"(, 2]}], "outputs": ["y"],
                           "nodes": [{"op": "Split", "inputs": ["x"], "outputs": [)" +
                           pieces + "]}]}");
  const Values in = random_inputs(g);
  CHECK(run_unfused(g, in).at("y").get(1) == in.at("x").get(155));
}
