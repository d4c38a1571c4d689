// A model may declare any size: replacing nodes by others must not store constants of that size.
#include <algorithm>

#include "catch.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

int64_t largest_constant(const std::string& json) {
  const Graph g = graph_of(json);
  int64_t most = 0;
  for (const Value& v : g.values)
    if (v.constant.defined()) most = std::max(most, v.constant.bytes());
  return most;
}

}  // namespace

TEST_CASE("large sizes make no large constants") {
  const std::string recurrent =
      R"({"opset": 22, "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 33554432, 2]},
          {"name": "w", "dtype": "f32", "shape": [1, 16, 2]}, {"name": "r", "dtype": "f32", "shape": [1, 16, 4]}],
          "outputs": ["y"], "nodes": [{"op": "LSTM", "inputs": ["x", "w", "r"], "outputs": ["y"], "attrs": {"hidden_size": 4}}]})";
  const std::string attention =
      R"({"opset": 23, "inputs": [{"name": "q", "dtype": "f32", "shape": [1, 1, 33554432, 2]}], "outputs": ["y"],
          "nodes": [{"op": "Attention", "inputs": ["q", "q", "q"], "outputs": ["y"], "attrs": {"is_causal": 1}}]})";
  const std::string convolution =
      R"({"opset": 10, "inputs": [{"name": "x", "dtype": "u8", "shape": [1, 1, 10000, 10000]},
          {"name": "w", "dtype": "u8", "shape": [2, 1, 9000, 9000]}, {"name": "z", "dtype": "u8", "shape": []}], "outputs": ["y"],
          "nodes": [{"op": "ConvInteger", "inputs": ["x", "w", "z", "z"], "outputs": ["y"], "attrs": {}}]})";
  for (const std::string& json : {recurrent, attention, convolution}) {
    INFO(json);
    CHECK(largest_constant(json) <= 1 << 20);
  }
}

TEST_CASE("nodes of large sizes compute what small ones do") {
  // 300,000 states of 4 bytes are beyond what is stored; each sequence alone gives the same.
  const auto lstm = [](int64_t batch) {
    return graph_of(
        R"({"opset": 22, "inputs": [{"name": "x", "dtype": "f32", "shape": [1, )" + std::to_string(batch) +
        R"(, 1]}, {"name": "w", "dtype": "f32", "shape": [1, 1, 1]}, {"name": "r", "dtype": "f32", "shape": [1, 1, 1]}],
          "outputs": ["y"], "nodes": [{"op": "RNN", "inputs": ["x", "w", "r"], "outputs": ["y"], "attrs": {"hidden_size": 1}}]})");
  };
  const Graph large = lstm(300000), small = lstm(3);
  Values inputs = random_inputs(large);
  const Tensor all = run_unfused(large, inputs).at("y");
  Tensor some(DType::f32, {1, 3, 1});
  for (int64_t i = 0; i < 3; ++i) some.set(i, inputs.at("x").get(i));
  inputs["x"] = some;
  const Tensor alone = run_unfused(small, inputs).at("y");
  for (int64_t i = 0; i < 3; ++i) CHECK(all.get(i) == alone.get(i));
}
