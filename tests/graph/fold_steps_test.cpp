// Steps of bytes go into the constants of what the bytes are made of.
#include <algorithm>
#include <cmath>
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
  m.initializers.emplace_back("w1", Tensor::random(DType::f32, {4, 4, 1, 1}, 7));
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

TEST_CASE("Sums of products come out in steps, and bytes that do so bit for bit") {
  CHECK(folds(model(node("Max", R"("x","c")", "r") + "," + node("Clip", R"("r","lo","hi")", "m"))));
  CHECK(folds(model(node("Clip", R"("x","","hi")", "m"))));
  CHECK(folds(model(node("Concat", R"("x","x")", "m", R"("axis": 2)"))));
  CHECK(folds(model(node("MaxPool", R"("x")", "m", R"("kernel_shape": [2,3], "pads": [1,1,0,1])"))));
  CHECK(folds(model(node("Sub", R"("x","x")", "r") + "," + node("Relu", R"("r")", "m"))));
  CHECK(folds(model(node("Conv", R"("f","w")", "m", R"("pads": [1,1,1,1])"))));
  CHECK(folds(model(node("Conv", R"("f","w","b")", "r") + "," +
                    node("LeakyRelu", R"("r")", "m", R"("alpha": 0.3)"))));
  CHECK(folds(model(node("Conv", R"("f","w1")", "r") + "," + node("Add", R"("r","x")", "m"))));
}

TEST_CASE("What is rounded before it is divided stays so") {
  CHECK_FALSE(folds(model(node("Mul", R"("c","f")", "m"))));
  CHECK_FALSE(folds(model(kScaled + "," + node("Add", R"("a","x")", "m"))));
  CHECK_FALSE(
      folds(model(node("AveragePool", R"("x")", "m", R"("kernel_shape": [2,3], "pads": [1,1,0,1])"))));
  CHECK_FALSE(folds(
      model(node("ReduceMean", R"("x")", "r", R"("axes": [2])") + "," + node("Transpose", R"("r")", "m"))));
}

// Of all bytes and, for a sum, all pairs: what ONNX's definitions come to, operation by operation.
TEST_CASE("Bytes are requantized as ONNX says, ties and all") {
  const float kSteps[][2] = {{0.11F, 0.02F}, {0.05F, 0.02F}, {0.01F, 0.02F},   {0.03F, 0.02F},
                             {0.05F, 0.1F},  {0.15F, 0.1F},  {0.007F, 0.014F}, {0.0123F, 0.37F}};
  const auto byte = [](float x, float t) {
    return std::clamp(static_cast<int>(std::nearbyintf(std::clamp(x / t, -1e6F, 1e6F))), -128, 127);
  };
  int merged = 0;
  for (const auto& [s, t] : kSteps)
    for (const std::string op : {"Relu", "Add", "Sub", "Max"}) {
      INFO(op << " " << s << " to " << t);
      const bool one = op == "Relu";
      Model m = model_of(R"({"opset": 17, "inputs": [{"name": "p", "dtype": "i8", "shape": [256,1]},
          {"name": "q", "dtype": "i8", "shape": [256]}], "outputs": ["y"], "nodes": [
          {"op": "DequantizeLinear", "inputs": ["p","s","z"], "outputs": ["a"]},
          {"op": "DequantizeLinear", "inputs": ["q","u","z"], "outputs": ["b"]},
          {"op": ")" + op +
                         R"(", "inputs": ["a")" + (one ? "" : R"(,"b")") + R"(], "outputs": ["m"]},
          {"op": "QuantizeLinear", "inputs": ["m","t","z"], "outputs": ["y"]}]})");
      const float u = s * 0.7F;
      for (const auto& [name, x] : std::map<std::string, float>{{"s", s}, {"t", t}, {"u", u}}) {
        m.initializers.emplace_back(name, Tensor(DType::f32, {}));
        m.initializers.back().second.set(0, x);
      }
      m.initializers.emplace_back("z", Tensor(DType::i8, {}));
      Graph g = build_graph(m);
      fold_steps(g, {});
      merged += g.values[static_cast<size_t>(g.nodes.back().inputs[1])].constant.get(0) == 1;
      Values in = {{"p", Tensor(DType::i8, {256, 1})}, {"q", Tensor(DType::i8, {256})}};
      for (int i = 0; i < 256; ++i)
        for (auto& [name, tensor] : in) tensor.set_int(i, i - 128);
      const Tensor y = run_unfused(g, in).at("y");
      int wrong = 0;
      for (int64_t i = 0; i < y.size(); ++i) {
        const int64_t p = one ? i : i / 256, q = i % 256;
        const float a = static_cast<float>(p - 128) * s, b = static_cast<float>(q - 128) * u;
        const float x = one ? std::max(a, 0.0F) : op == "Add" ? a + b : op == "Sub" ? a - b : std::max(a, b);
        wrong += y.get_int(i) != byte(x, t);
      }
      CHECK(wrong == 0);
    }
  CHECK(merged > 2);
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
    Graph g = model(node("Conv", R"("f","w")", "m"));
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
