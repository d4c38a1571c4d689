// Steps of bytes go into the constants of what the bytes are made of.
#include <random>

#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// f: f32[1,4,6,5] and q: u8 alike -> nodes, which make m -> QuantizeLinear -> y.
Graph model(const std::string& nodes, const std::string& outputs = R"("y")", int opset = 17) {
  Model m = model_of(
      R"({"opset": )" + std::to_string(opset) + R"(,
    "inputs": [{"name": "f", "dtype": "f32", "shape": [1,4,6,5]},
               {"name": "q", "dtype": "u8", "shape": [1,4,6,5]}],
    "initializers": {"s": {"dtype": "f32", "shape": [], "data": [0.0123]},
      "t": {"dtype": "f32", "shape": [1], "data": [0.37]}, "z": {"dtype": "u8", "shape": [1], "data": [100]},
      "lo": {"dtype": "f32", "shape": [], "data": [-3]}, "hi": {"dtype": "f32", "shape": [], "data": [6]},
      "c": {"dtype": "f32", "shape": [4,1,1], "data": [1,-2,3,0.5]},
      "axes": {"dtype": "i64", "shape": [1], "data": [2]}},
    "outputs": [)" +
      outputs + R"(], "nodes": [{"op": "DequantizeLinear", "inputs": ["q","s","z"], "outputs": ["x"]},)" +
      nodes + R"(, {"op": "QuantizeLinear", "inputs": ["m","t","z"], "outputs": ["y"]}]})");
  m.initializers.emplace_back("w", Tensor::random(DType::f32, {3, 4, 3, 3}, 5));
  m.initializers.emplace_back("b", Tensor::random(DType::f32, {3}, 6));
  return build_graph(m);
}

Values inputs_of(const Graph& g) {
  Values in = random_inputs(g);
  std::mt19937_64 rng(3);
  for (int64_t i = 0; i < in["q"].size(); ++i) in["q"].set_int(i, static_cast<int64_t>(rng() % 256));
  return in;
}

// Whether the step went into constants; the bytes stay as they are.
bool folds(Graph g) {
  const Values in = inputs_of(g), before = run_unfused(g, in);
  fold_steps(g, evaluate_by_interpreter);
  check_close(run_unfused(g, in), before, 0);
  check_close(run(g, partition(g, {.channel_block = 4}), in), before, 0);
  for (const Node& n : g.nodes)
    if (n.op == "QuantizeLinear") return g.values[static_cast<size_t>(n.inputs[1])].constant.get(0) == 1;
  return false;
}

std::string node(const std::string& op, const std::string& in, const std::string& out,
                 const std::string& attrs = "") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + in + R"(], "outputs": [")" + out + R"("], "attrs": {)" +
         attrs + "}}";
}

const std::string kScaled = node("Mul", R"("f","c")", "a");

}  // namespace

TEST_CASE("Terms that constants scale come out in steps") {
  CHECK(folds(model(node("Mul", R"("c","f")", "m"))));
  CHECK(folds(model(kScaled + "," + node("Add", R"("a","x")", "m"))));
  CHECK(folds(model(kScaled + "," + node("Sub", R"("x","a")", "r") + "," + node("Relu", R"("r")", "m"))));
  CHECK(folds(model(node("Max", R"("x","c")", "r") + "," + node("Clip", R"("r","lo","hi")", "m"))));
  CHECK(folds(model(node("Clip", R"("x","","hi")", "m"))));
  CHECK(folds(model(node("Concat", R"("x","x")", "m", R"("axis": 2)"))));
  CHECK(folds(model(node("AveragePool", R"("x")", "m", R"("kernel_shape": [2,3], "pads": [1,1,0,1])"))));
  CHECK(folds(model(node("MaxPool", R"("x")", "m", R"("kernel_shape": [2,3], "pads": [1,1,0,1])"))));
  CHECK(folds(
      model(node("ReduceMean", R"("x")", "r", R"("axes": [2])") + "," + node("Transpose", R"("r")", "m"))));
  CHECK(folds(model(node("Conv", R"("f","w")", "m", R"("pads": [1,1,1,1])"))));
  CHECK(folds(model(node("Conv", R"("f","w","b")", "r") + "," +
                    node("LeakyRelu", R"("r")", "m", R"("alpha": 0.3)"))));
}

TEST_CASE("What others read, and what no constant scales, is divided element by element") {
  CHECK_FALSE(folds(model(node("Sigmoid", R"("f")", "m"))));
  CHECK_FALSE(folds(model(node("Mul", R"("f","x")", "m"))));
  CHECK_FALSE(folds(model(node("Add", R"("f","x")", "m"))));
  CHECK_FALSE(folds(model(kScaled + "," + node("Relu", R"("a")", "m"), R"("y","a")")));
  CHECK_FALSE(folds(
      model(kScaled + "," + node("Relu", R"("a")", "m") + "," + node("Neg", R"("a")", "n"), R"("y","n")")));
  CHECK_FALSE(folds(model(node("Div", R"("c","x")", "m"))));
}

TEST_CASE("Bytes that several read stand for what they did to the others") {
  const Graph g = model(node("Add", R"("x","x")", "m") + "," + node("Neg", R"("x")", "n"), R"("y","n")");
  CHECK(folds(g));
}

TEST_CASE("Whose steps aren't one positive number, or 1, stays") {
  for (const double step : {-0.37, 1.0}) {
    Graph g = model(kScaled + "," + node("Relu", R"("a")", "m"));
    for (Value& v : g.values)
      if (v.name == "t") {
        v.constant = v.constant.clone();
        v.constant.set(0, step);
      }
    fold_steps(g, evaluate_by_interpreter);
    for (const Node& n : g.nodes)
      if (n.op == "QuantizeLinear")
        CHECK(g.values[static_cast<size_t>(n.inputs[1])].constant.get(0) == Approx(step));
  }
}
