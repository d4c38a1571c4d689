// Attention and RotaryEmbedding as smaller operators: which ones, and what is refused. Their results are
// tested by the onnx package's cases (onnx_models_test.cpp).
#include <fmt/format.h>

#include "catch.h"
#include "nestor/error.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// One node of opset 24, of f32 inputs; a shape of "" leaves one out.
Graph graph_with(const std::string& op, const std::vector<std::string>& shapes, const std::string& attrs) {
  std::string inputs, names;
  for (size_t k = 0; k < shapes.size(); ++k) {
    names += fmt::format(R"({}"{}")", k ? ", " : "", shapes[k].empty() ? "" : fmt::format("x{}", k));
    if (!shapes[k].empty())
      inputs +=
          fmt::format(R"({}{{"name": "x{}", "dtype": "f32", "shape": [{}]}})", k ? ", " : "", k, shapes[k]);
  }
  return graph_of(fmt::format(
      R"({{"opset": 24, "inputs": [{}], "outputs": ["y"], "nodes": [{{"op": "{}", "inputs": [{}],
          "outputs": ["y"], "attrs": {{{}}}}}]}})",
      inputs, op, names, attrs));
}

std::string error_of(const std::string& op, const std::vector<std::string>& shapes,
                     const std::string& attrs) {
  try {
    graph_with(op, shapes, attrs);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

const std::string kHeads = "1,2,9,8";

}  // namespace

TEST_CASE("Attention is two products and what stands between them") {
  for (const char* attrs : {"", R"("is_causal": 1)", R"("scale": 0.3)"}) {
    Graph g = graph_with("Attention", {kHeads, kHeads, kHeads}, attrs);
    CHECK(count(g, "Attention") == 0);
    CHECK(count(g, "MatMul") == 2);
    INFO(attrs);
    check_unchanged(g, [](Graph& changed) { optimize(changed, evaluate_by_interpreter); });
  }
}

TEST_CASE("Rows that every mask forbids give 0, other rows what they gave") {
  const Graph g = graph_with("Attention", {"1,1,2,4", "1,1,3,4", "1,1,3,4", "2,3"}, "");
  Values in = random_inputs(g);
  for (int64_t k = 0; k < 3; ++k) in.at("x3").set(k, -INFINITY);
  const Tensor y = run_unfused(g, in).at("y");
  for (int64_t k = 0; k < 4; ++k) {
    CHECK(y.get(k) == 0);
    CHECK((std::isfinite(y.get(4 + k)) && y.get(4 + k) != 0));
  }
  in.at("x0").set(4, NAN);  // is no mask
  CHECK(std::isnan(run_unfused(g, in).at("y").get(4)));
}

TEST_CASE("Attention without keys is 0, and no batch is nothing") {
  for (const auto& [q, kv] : {std::pair{"1,4,5,8", "1,2,0,8"}, std::pair{"0,4,5,8", "0,2,5,8"}}) {
    Graph g = graph_with("Attention", {q, kv, kv}, "");
    check_unchanged(g, [](Graph& changed) { optimize(changed, evaluate_by_interpreter); });
    const Tensor y = run_unfused(g, random_inputs(g)).at("y");
    for (int64_t k = 0; k < y.size(); ++k) CHECK(y.get(k) == 0);
  }
  const std::string past = "1,2,0,8";  // the first of a cache's steps
  Graph g = graph_with("Attention", {kHeads, kHeads, kHeads, "", past, past}, R"("is_causal": 1)");
  check_unchanged(g, [](Graph& changed) { optimize(changed, evaluate_by_interpreter); });
}

TEST_CASE("what Attention and RotaryEmbedding can't mean is refused") {
  const auto refuses = [](const std::string& message, const std::string& part) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  };
  refuses(error_of("Attention", {"1,9,16", "1,9,16", "1,9,16"}, R"("q_num_heads": 3, "kv_num_heads": 2)"),
          "`q_num_heads` is 3");
  refuses(error_of("Attention", {"1,9,16", "1,9,16", "1,9,16"}, ""), "`q_num_heads` is 0");
  refuses(error_of("Attention", {kHeads, "1,3,9,8", "1,3,9,8"}, ""), "2 heads of queries");
  refuses(error_of("Attention", {kHeads, kHeads, "1,2,8,8"}, ""), "f32[1,2,9,8] was expected");
  refuses(error_of("Attention", {kHeads, kHeads, kHeads, "9,10"}, ""), "doesn't broadcast");
  refuses(error_of("Attention", {kHeads, kHeads, kHeads, "", "1,2,4,8"}, ""), "go together");
  refuses(error_of("Attention", {kHeads, kHeads, kHeads}, R"("softmax_precision": 7)"),
          "FLOAT 1 or DOUBLE 11");
  refuses(error_of("RotaryEmbedding", {kHeads, "1,9,4", "1,9,3"}, ""), "f32[1,9,4] was expected");
  refuses(error_of("RotaryEmbedding", {kHeads, "1,9,4", "1,9,4"}, R"("rotary_embedding_dim": 3)"),
          "even number");
}
