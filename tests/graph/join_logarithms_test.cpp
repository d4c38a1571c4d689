// Logarithms of sigmoids and softmaxes, as exporters write them, keep their digits.
#include <cmath>

#include "catch.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

Graph logarithm_of(const std::string& op, const std::string& more_outputs = "") {
  return graph_of(R"({"opset": 13, "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}],
      "outputs": ["y")" +
                  more_outputs + R"(], "nodes": [
      {"op": ")" + op +
                  R"(", "inputs": ["x"], "outputs": ["p"]},
      {"op": "Log", "inputs": ["p"], "outputs": ["y"]}]})");
}

void check_values(const Graph& g, const std::vector<double>& x, const std::vector<double>& wanted) {
  Tensor in(DType::f32, {2, 3});
  for (size_t i = 0; i < x.size(); ++i) in.set(static_cast<int64_t>(i), x[i]);
  const Tensor y = run_unfused(g, {{"x", in}}).at("y");
  for (size_t i = 0; i < x.size(); ++i) {
    const double got = y.get(static_cast<int64_t>(i));
    INFO("of " << x[i] << ": " << got << " instead of " << wanted[i]);
    CHECK(std::abs(got - wanted[i]) <= 1e-6 * std::abs(wanted[i]));
  }
}

}  // namespace

TEST_CASE("The logarithm of a sigmoid is a softplus") {
  Graph g = logarithm_of("Sigmoid", R"(, "p")");
  check_unchanged(g, [](Graph& h) { join_logarithms(h, {}); });
  CHECK(count(g, "Sigmoid") == 1);  // an output
  CHECK(count(g, "Log") == 0);
  const std::vector<double> x = {-120, -3, 0, 2, 20, 90};
  std::vector<double> wanted;
  for (const double v : x) wanted.push_back(std::min(v, 0.0) - std::log1p(std::exp(-std::abs(v))));
  check_values(g, x, wanted);
}

TEST_CASE("The logarithm of a softmax is one operator") {
  Graph g = logarithm_of("Softmax");
  check_unchanged(g, [](Graph& h) {
    join_logarithms(h, {});
    remove_dead_nodes(h, {});
  });
  CHECK(g.nodes.size() == 1);
  check_values(g, {-200, 0, 1, 5, 5, -150},
               {-200 - std::log(1 + std::exp(1.0)), -std::log(1 + std::exp(1.0)),
                1 - std::log(1 + std::exp(1.0)), -std::log(2), -std::log(2), -155 - std::log(2)});
}
