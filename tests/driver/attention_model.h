// Attention as exporters write it, of any size.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace nestor {

struct AttentionShape {
  std::string batch;  // "2,3," or nothing
  int64_t queries, keys, depth, width;
};

// The graph of an attention: scores scaled, masked where `mask` is a shape, K transposed by a node of its
// own; where it is guarded, rows whose weights are NaN are set to 0.
inline std::string attention_model(const AttentionShape& s, const std::string& mask, bool guarded = false) {
  const std::string perm = s.batch.empty() ? "[1,0]" : s.batch == "4," ? "[0,2,1]" : "[0,1,3,2]";
  std::string inputs, nodes, scores = "t";
  const auto input = [&](const char* name, const std::string& shape) {
    inputs += fmt::format(R"({}{{"name": "{}", "dtype": "f32", "shape": [{}]}})", inputs.empty() ? "" : ", ",
                          name, shape);
  };
  input("q", fmt::format("{}{},{}", s.batch, s.queries, s.depth));
  input("k", fmt::format("{}{},{}", s.batch, s.keys, s.depth));
  input("v", fmt::format("{}{},{}", s.batch, s.keys, s.width));
  nodes = fmt::format(R"({{"op": "Transpose", "inputs": ["k"], "outputs": ["kt"], "attrs": {{"perm": {}}}}},
    {{"op": "MatMul", "inputs": ["q", "kt"], "outputs": ["s"]}},
    {{"op": "Mul", "inputs": ["s", "scale"], "outputs": ["t"]}},)",
                      perm);
  if (!mask.empty()) {
    input("m", mask);
    nodes += R"({"op": "Add", "inputs": ["t", "m"], "outputs": ["u"]},)";
    scores = "u";
  }
  nodes += fmt::format(R"({{"op": "Softmax", "inputs": ["{}"], "outputs": ["p"]}},)", scores);
  if (guarded)
    nodes += R"({"op": "IsNaN", "inputs": ["p"], "outputs": ["nan"]},
      {"op": "Where", "inputs": ["nan", "zero", "p"], "outputs": ["w"]},)";
  nodes += fmt::format(R"({{"op": "MatMul", "inputs": ["{}", "v"], "outputs": ["y"]}})", guarded ? "w" : "p");
  return fmt::format(R"({{"name": "attention", "opset": 17, "inputs": [{}], "outputs": ["y"], "nodes": [{}],
    "weights": {{"scale": {{"dtype": "f32", "shape": [], "data": [0.25]}},
      "zero": {{"dtype": "f32", "shape": [1], "data": [0]}}}}}})",
                     inputs, nodes);
}

// Two of a batch, [batch, row, head, depth]: heads lie between rows and columns; scores as the product is.
inline std::string attention_of_heads_between(int rows, int heads, int depth) {
  std::string inputs, nodes;
  for (const char* x : {"q", "k", "v"}) {
    inputs += fmt::format(R"({}{{"name": "{}", "dtype": "f32", "shape": [2,{},{},{}]}})",
                          inputs.empty() ? "" : ",", x, rows, heads, depth);
    nodes += fmt::format(R"({{"op": "Transpose", "inputs": ["{0}"], "outputs": ["{0}t"],
                       "attrs": {{"perm": {1}}}}},)",
                         x, *x == 'k' ? "[0,2,3,1]" : "[0,2,1,3]");
  }
  return fmt::format(R"({{"name": "a", "opset": 17, "inputs": [{}], "outputs": ["y"], "nodes": [{}
  {{"op": "MatMul", "inputs": ["qt", "kt"], "outputs": ["s"]}},
  {{"op": "Softmax", "inputs": ["s"], "outputs": ["p"]}},
  {{"op": "MatMul", "inputs": ["p", "vt"], "outputs": ["y"]}}]}})",
                     inputs, nodes);
}

}  // namespace nestor
