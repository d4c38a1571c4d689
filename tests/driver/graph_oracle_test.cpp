// Whole models beside their graphs as they were read: right ones agree, and what a graph pass gets wrong is
// seen.
#include "nestor/graph_oracle.h"

#include "catch.h"
#include "nestor/driver.h"
#include "src/graph/unfolded.h"

using namespace nestor;

namespace {

ModelNode node(const std::string& op, std::vector<std::string> inputs, const std::string& output,
               Attrs attrs = {}) {
  return {op, "", "", std::move(inputs), {output}, std::move(attrs), {}};
}
Tensor ints(const std::vector<int64_t>& values) {
  Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.set_int(static_cast<int64_t>(i), values[i]);
  return t;
}
Tensor scalar(DType type, double value) {
  Tensor t(type, {});
  t.set(0, value);
  return t;
}

// A convolution, a norm, a product by a table that is made of constants, a Softmax.
Model network() {
  Model m;
  m.opsets = {{"", 17}};
  m.inputs = {{"x", DType::f32, {{1, ""}, {6, ""}, {12, ""}, {12, ""}}}};
  m.outputs = {{"y", DType::f32, {}, false, false}};
  const auto weights = [&](const std::string& name, std::vector<int64_t> shape, double add = 0) {
    Tensor t = Tensor::random(DType::f32, std::move(shape), m.initializers.size() + 1);
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, t.get(i) + add);
    m.initializers.emplace_back(name, t);
  };
  weights("w", {16, 6, 3, 3});
  weights("scale", {16});
  weights("bias", {16});
  weights("mean", {16});
  weights("var", {16}, 0.7);
  weights("a", {12, 3});
  weights("b", {12, 3});
  weights("v", {144, 10});
  m.initializers.emplace_back("rows", ints({16}));
  m.initializers.emplace_back("all", ints({-1}));
  const Attrs pads = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, last = {{"axis", int64_t{-1}}};
  m.nodes = {node("Conv", {"x", "w"}, "c", pads),
             node("BatchNormalization", {"c", "scale", "bias", "mean", "var"}, "n"),
             node("Relu", {"n"}, "r"),
             node("Sin", {"a"}, "s"),
             node("Concat", {"s", "s", "b", "b"}, "table", last),
             node("Mul", {"r", "table"}, "t"),
             node("Concat", {"rows", "all"}, "to", {{"axis", int64_t{0}}}),
             node("Reshape", {"t", "to"}, "f"),
             node("MatMul", {"f", "v"}, "p"),
             node("Softmax", {"p"}, "y", last)};
  return m;
}

// Bytes between, with ties: 0.05 / 0.02 is 2.5.
Model quantized_network() {
  Model m;
  m.opsets = {{"", 17}};
  m.inputs = {{"x", DType::f32, {{4, ""}, {64, ""}}}};
  m.outputs = {{"y", DType::f32, {}, false, false}};
  m.initializers = {{"s", scalar(DType::f32, 0.05)},
                    {"t", scalar(DType::f32, 0.02)},
                    {"z", scalar(DType::i8, 3)},
                    {"w", Tensor::random(DType::i8, {64, 32}, 5)},
                    {"u", scalar(DType::f32, 0.013)}};
  m.nodes = {node("QuantizeLinear", {"x", "s", "z"}, "q0"),
             node("DequantizeLinear", {"q0", "s", "z"}, "d0"),
             node("Relu", {"d0"}, "r0"),
             node("QuantizeLinear", {"r0", "t", "z"}, "q1"),
             node("DequantizeLinear", {"q1", "t", "z"}, "d1"),
             node("DequantizeLinear", {"w", "u"}, "dw"),
             node("MatMul", {"d1", "dw"}, "m"),
             node("QuantizeLinear", {"m", "s", "z"}, "q2"),
             node("DequantizeLinear", {"q2", "s", "z"}, "y")};
  return m;
}

// What runs, compiled by default, beside the oracle of what was read; the comparisons that fail.
std::vector<std::string> wrong(const Model& read, const Model& run, const BuildOptions& options = {}) {
  CompileOptions compile;
  compile.schedules = default_schedules();
  const auto model = make_executor(compile_model(Source{build_graph(run), std::nullopt}, compile));
  NamedTensors inputs;
  for (const PlanTensor& t : model->inputs()) inputs[t.name] = Tensor::random(t.dtype, t.shape, 9);
  GraphOracle oracle(build_unfolded(read, options), compile.target);
  CHECK(oracle.seconds() < 10);
  const auto checks = oracle.check(inputs, model->run(inputs));
  CHECK_FALSE(checks.empty());
  std::vector<std::string> out;
  for (const GraphOracle::Check& c : checks)
    if (!c.comparison.ok()) out.push_back(c.name);
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("models agree with their graphs as they were read") {
  CHECK(wrong(network(), network()) == Names{});
  CHECK(wrong(quantized_network(), quantized_network()) == Names{});
}

TEST_CASE("models whose f32 overflows, where the oracle's f64 doesn't, aren't wrong") {
  Model large = network();
  for (auto& [name, t] : large.initializers)
    if (name == "scale") t.set(3, 3e38);
  CHECK(wrong(large, large) == Names{});
}

TEST_CASE("what a pass gets wrong differs from the graph as it was read") {
  Model other = network();
  other.nodes[4].inputs = {"s", "s", "b", "s"};  // as constants were folded once
  CHECK(wrong(network(), other) == Names{"y"});
  other = network();
  for (auto& [name, t] : other.initializers)
    if (name == "var") t.set(3, t.get(3) * 1.001);
  CHECK(wrong(network(), other) == Names{"y"});
  other = quantized_network();
  other.initializers[3].second.set_int(100, other.initializers[3].second.get_int(100) + 100);
  CHECK(wrong(quantized_network(), other) == Names{"y"});
}

TEST_CASE("values that shapes come from are computed once more") {
  BuildOptions lies;
  lies.evaluate = [](const PrimFunc& f, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> out = evaluate_by_interpreter(f, inputs);
    if (out[0].dtype() == DType::i64) {
      out[0].set_int(0, 8);
      out[0].set_int(1, 288);
    }
    return out;
  };
  Model m = network();
  m.nodes[8] = node("Softmax", {"f"}, "p");  // of any shape
  m.nodes[9] = node("Reshape", {"p", "all"}, "y");
  CHECK(wrong(m, m, lies) == Names{"`to` while reading", "y"});
}
