// Operators on f16 and bf16: as on f32, each result rounded once.
#include <fmt/format.h>

#include <cmath>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/graph.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

struct Case {
  std::string op, attrs;
  std::vector<std::string> shapes;     // of inputs: "2,3"; with "i8 2,3" of another type than halves
  std::vector<std::string> constants;  // "shape": ..., "data": ... of the halves' type, or "dtype" first
  int opset = 21;
};

std::string number_of(const std::string& type) {
  return type == "f16" ? "10" : type == "bf16" ? "16" : "1";
}

// y = op(x0, x1 ...). `computed` in f32 where casts stand around it.
Graph graph_of_case(const Case& c, const std::string& half, const std::string& computed) {
  const bool casts = half != computed;
  std::string inputs, nodes, names, constants;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    const size_t space = c.shapes[i].find(' ');
    const bool own = space != std::string::npos;
    const std::string x = fmt::format("x{}", i), type = own ? c.shapes[i].substr(0, space) : half,
                      shape = own ? c.shapes[i].substr(space + 1) : c.shapes[i];
    inputs +=
        fmt::format(R"({}{{"name": "{}", "dtype": "{}", "shape": [{}]}})", i ? ", " : "", x, type, shape);
    const bool cast = casts && !own;
    if (cast)
      nodes += fmt::format(
          R"({{"op": "Cast", "inputs": ["{0}"], "outputs": ["{0}.wide"], "attrs": {{"to": 1}}}}, )", x);
    names += fmt::format(R"({}"{}{}")", i ? ", " : "", x, cast ? ".wide" : "");
  }
  for (size_t i = 0; i < c.constants.size(); ++i) {
    const bool own = c.constants[i].starts_with("\"dtype\"");
    constants += fmt::format(R"({}"c{}": {{{}{}}})", i ? ", " : "", i,
                             own ? "" : fmt::format(R"("dtype": "{}", )", computed), c.constants[i]);
    names += fmt::format(R"(, "c{}")", i);
  }
  nodes += fmt::format(R"({{"op": "{}", "inputs": [{}], "outputs": ["{}"], "attrs": {{{}}}}})", c.op, names,
                       casts ? "y.wide" : "y", c.attrs);
  if (casts)
    nodes +=
        fmt::format(R"(, {{"op": "Cast", "inputs": ["y.wide"], "outputs": ["y"], "attrs": {{"to": {}}}}})",
                    number_of(half));
  return graph_of(
      fmt::format(R"({{"opset": {}, "inputs": [{}], "weights": {{{}}}, "outputs": ["y"], "nodes": [{}]}})",
                  c.opset, inputs, constants, nodes));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Relu", "", {"2,3"}, {}},
      {"Add", "", {"2,3", "3"}, {}},
      {"Div", "", {"2,3", "2,3"}, {}},
      {"Pow", "", {"2,3", "f32 3"}, {}},
      {"Clip", "", {"2,3"}, {R"("shape": [], "data": [-0.25])", R"("shape": [], "data": [0.125])"}},
      {"Softmax", R"("axis": 0)", {"4,3"}, {}},
      {"LayerNormalization", "", {"2,8", "8", "8"}, {}},
      {"InstanceNormalization", "", {"1,2,8", "2", "2"}, {}},
      {"BatchNormalization", "", {"1,2,4", "f32 2", "f32 2", "f32 2", "f32 2"}, {}},
      {"MaxPool", R"("kernel_shape": [2])", {"1,2,8"}, {}},
      {"AveragePool", R"("kernel_shape": [3])", {"1,2,8"}, {}},
      {"ReduceSum", "", {"4,3"}, {}},
      {"CumSum", "", {"7"}, {R"("dtype": "i64", "shape": [], "data": [0])"}},
      {"Where", "", {"bool 3", "2,3", "3"}, {}},
      {"PRelu", "", {"2,3", "3"}, {}},
      {"Gelu", R"("approximate": "tanh")", {"5"}, {}},
      {"Mean", "", {"5", "5", "5"}, {}},
      {"GridSample", "", {"1,1,4,4", "1,2,2,2"}, {}},
      {"Einsum", R"("equation": "ij,kj->ik")", {"2,3", "4,3"}, {}},
      {"DequantizeLinear", "", {"i8 5", ""}, {}},
      {"LSTM", R"("hidden_size": 2)", {"3,1,2", "1,8,2", "1,8,2"}, {}},
      {"Attention", "", {"1,2,3,4", "1,2,5,4", "1,2,5,4"}, {}, 23},
  };
  return all;
}

}  // namespace

TEST_CASE("An operator on halves is that on f32, rounded once") {
  for (const std::string half : {"f16", "bf16"})
    for (const Case& c : cases()) {
      INFO(c.op << " of " << half);
      const Graph g = graph_of_case(c, half, half), wide = graph_of_case(c, half, "f32");
      CHECK(name_of(value_of(g, g.outputs[0]).type.dtype) == half);
      const Values in = random_inputs(g);
      check_close(run_unfused(g, in), run_unfused(wide, in), 0);
    }
}

TEST_CASE("Statistics of a norm of halves are f32") {
  const Graph g = graph_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f16", "shape": [2, 4]}],
      "weights": {"s": {"dtype": "f16", "shape": [4], "data": [1, 2, 3, 4]}}, "outputs": ["y", "m", "d"],
      "nodes": [{"op": "LayerNormalization", "inputs": ["x", "s"], "outputs": ["y", "m", "d"]}]})");
  CHECK(to_string(value_of(g, g.outputs[0]).type) == "f16[2,4]");
  CHECK(to_string(value_of(g, g.outputs[1]).type) == "f32[2,1]");
  CHECK(to_string(value_of(g, g.outputs[2]).type) == "f32[2,1]");
}

TEST_CASE("What an operator refuses of halves is said of the model's node") {
  CHECK_THROWS_WITH(graph_of(R"({"opset": 21, "inputs": [{"name": "x", "dtype": "f16", "shape": [2, 4]},
      {"name": "z", "dtype": "f16", "shape": [3]}], "outputs": ["y"],
      "nodes": [{"op": "Add", "inputs": ["x", "z"], "outputs": ["y"], "name": "sum"}]})"),
                    Catch::Contains("Add node `sum`") && Catch::Contains("don't broadcast"));
}

namespace {

constexpr const char* kNetwork =
    R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f16", "shape": [1, 3, 8, 8]}],
  "weights": {"w": {"dtype": "f16", "shape": [4, 3, 1, 1], "data": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]},
              "c": {"dtype": "f32", "shape": [4], "data": [1, 2, 3, 4]}, "v": {"dtype": "f16", "shape": [64, 2],
              "data": [)";

Graph network() {
  std::string data;
  for (int i = 0; i < 128; ++i) data += (i ? ", 0.01" : "0.02");
  return graph_of(kNetwork + data + R"(]}}, "outputs": ["z"], "nodes": [
      {"op": "Conv", "inputs": ["x", "w"], "outputs": ["a"]},
      {"op": "BatchNormalization", "inputs": ["a", "c", "c", "c", "c"], "outputs": ["b"]},
      {"op": "Relu", "inputs": ["b"], "outputs": ["r"]},
      {"op": "Flatten", "inputs": ["r"], "outputs": ["f"], "attrs": {"axis": 2}},
      {"op": "MatMul", "inputs": ["f", "v"], "outputs": ["z"]}]})");
}

}  // namespace

TEST_CASE("Between nodes halves stand in f32, and weights stay in 16 bits") {
  Graph g = network();
  check_unchanged(
      g, [](Graph& h) { optimize(h, evaluate_by_interpreter); }, 2e-2);
  CHECK(count(g, "BatchNormalization") == 0);
  int halves = 0;
  for (const Node& n : g.nodes) {
    if (n.op != "Conv" && n.op != "MatMul") continue;
    CHECK(value_of(g, n.inputs[0]).type.dtype == DType::f32);
    halves += value_of(g, n.inputs[1]).type.dtype == DType::f16;
    if (n.op == "Conv")
      CHECK(constant_of(g, n.inputs[1]).get(11) == 12);  // not rounded again, times the norm's
  }
  CHECK(halves == 2);
  CHECK(count(g, "Cast") == 2);  // x is read wide, and the output is rounded; nothing between
  CHECK(to_string(value_of(g, g.outputs[0]).type) == "f16[4,2]");
}

// 2048 and 1 are halves, 2049 is none.
TEST_CASE("Results between nodes aren't rounded to 16 bits, except where a Cast of the model says so") {
  const auto rest = [](const std::string& sum, const std::string& type, const std::string& back) {
    Graph g =
        graph_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f16", "shape": [1]}], "outputs": ["y"],
        "weights": {"one": {"dtype": ")" +
                 type + R"(", "shape": [], "data": [1]},
                    "two": {"dtype": "f16", "shape": [], "data": [2048]}}, "nodes": [)" +
                 sum + R"(
        {"op": "Sub", "inputs": [")" +
                 back + R"(", "two"], "outputs": ["y"]}]})");
    optimize(g, evaluate_by_interpreter);
    Tensor x(DType::f16, {1});
    x.set(0, 2048);
    return run_unfused(g, {{"x", x}}).at("y").get(0);
  };
  CHECK(rest(R"({"op": "Add", "inputs": ["x", "one"], "outputs": ["s"]},)", "f16", "s") == 1);
  CHECK(rest(R"({"op": "Cast", "inputs": ["x"], "outputs": ["w"], "attrs": {"to": 1}},
                {"op": "Add", "inputs": ["w", "one"], "outputs": ["s"]},
                {"op": "Cast", "inputs": ["s"], "outputs": ["h"], "attrs": {"to": 10}},)",
             "f32", "h") == 0);
}

TEST_CASE("On a target of halves they stay what they are") {
  Graph g = network();
  check_unchanged(
      g, [](Graph& h) { optimize(h, evaluate_by_interpreter, {.halves = true}); }, 2e-2);
  for (const Node& n : g.nodes)
    if (n.op == "Conv" || n.op == "MatMul") CHECK(value_of(g, n.inputs[0]).type.dtype == DType::f16);
}
