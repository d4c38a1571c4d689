// Bytes to bytes on the machine, bit for bit as ONNX defines it, operation by operation: no scales are merged
// if that would decide a tie differently, and nothing is contracted.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "nestor/driver.h"

using namespace nestor;

namespace {

constexpr float kFrom = 0.05F, kOther = 0.03F, kTo = 0.02F;

Tensor scalar(DType type, double value) {
  Tensor t(type, {});
  t.set(0, value);
  return t;
}

// p, q: i8[1,1,32,32], in steps of kFrom and kOther -> a, b -> nodes -> m -> y in steps of kTo.
Tensor run(std::vector<ModelNode> nodes, const NamedTensors& inputs) {
  Model m;
  m.opsets = {{"", 17}};
  for (const char* name : {"p", "q"})
    m.inputs.push_back({name, DType::i8, {{1, ""}, {1, ""}, {32, ""}, {32, ""}}});
  m.outputs = {{"y", DType::i8, {}, false, false}};
  m.initializers = {{"s", scalar(DType::f32, kFrom)},
                    {"u", scalar(DType::f32, kOther)},
                    {"t", scalar(DType::f32, kTo)},
                    {"z", scalar(DType::i8, 0)},
                    {"top", scalar(DType::f32, 1.7)}};
  m.nodes = {{"DequantizeLinear", "", "", {"p", "s", "z"}, {"a"}, {}, {}},
             {"DequantizeLinear", "", "", {"q", "u", "z"}, {"b"}, {}, {}}};
  m.nodes.insert(m.nodes.end(), nodes.begin(), nodes.end());
  m.nodes.push_back({"QuantizeLinear", "", "", {"m", "t", "z"}, {"y"}, {}, {}});
  CompileOptions options;
  options.schedules = default_schedules();
  const auto model = make_executor(compile_model(Source{build_graph(m), std::nullopt}, options));
  NamedTensors given;
  for (const PlanTensor& t : model->inputs())
    given[t.name] = inputs.count(t.name) ? inputs.at(t.name) : Tensor(t.dtype, t.shape);
  return model->run(given).at("y");
}

int64_t byte(float x) {
  return static_cast<int64_t>(std::nearbyintf(std::clamp(x / kTo, -128.0F, 127.0F)));
}

// Elements that aren't byte(f(a, b)).
template <class F>
int wrong(std::vector<ModelNode> nodes, F&& f) {
  NamedTensors in = {{"p", Tensor(DType::i8, {1, 1, 32, 32})}, {"q", Tensor(DType::i8, {1, 1, 32, 32})}};
  for (int64_t i = 0; i < 1024; ++i) {
    in["p"].set_int(i, i % 256 - 128);
    in["q"].set_int(i, i * 77 % 256 - 128);
  }
  const Tensor y = run(std::move(nodes), in);
  int differ = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const float a = static_cast<float>(in["p"].get_int(i)) * kFrom,
                b = static_cast<float>(in["q"].get_int(i)) * kOther;
    differ += y.get_int(i) != byte(f(a, b));
  }
  return differ;
}

ModelNode node(const std::string& op, std::vector<std::string> inputs, Attrs attrs = {}) {
  return {op, "", "", std::move(inputs), {"m"}, std::move(attrs), {}};
}

}  // namespace

TEST_CASE("bytes are compared, added and requantized to the bit") {
  CHECK(wrong({node("Identity", {"a"})}, [](float a, float) { return a; }) == 0);
  CHECK(wrong({node("Relu", {"a"})}, [](float a, float) { return std::max(a, 0.0F); }) == 0);
  CHECK(wrong({node("Max", {"a", "b"})}, [](float a, float b) { return std::max(a, b); }) == 0);
  CHECK(wrong({node("Min", {"b", "a", "b"})}, [](float a, float b) { return std::min(a, b); }) == 0);
  CHECK(wrong({node("Clip", {"a", "", "top"})}, [](float a, float) { return std::min(a, 1.7F); }) == 0);
  CHECK(wrong({node("Add", {"a", "b"})}, [](float a, float b) { return a + b; }) == 0);
  CHECK(wrong({node("Sub", {"b", "a"})}, [](float a, float b) { return b - a; }) == 0);
  CHECK(wrong({node("Add", {"a", "a"})}, [](float a, float) { return a + a; }) == 0);
}

TEST_CASE("pools of bytes are requantized to the bit") {
  Tensor p(DType::i8, {1, 1, 32, 32});
  for (int64_t i = 0; i < 1024; ++i) p.set_int(i, i * 31 % 256 - 128);
  const Attrs window = {{"kernel_shape", std::vector<int64_t>{2, 2}},
                        {"strides", std::vector<int64_t>{2, 2}}};
  for (const bool largest : {true, false}) {
    const Tensor y = run({node(largest ? "MaxPool" : "AveragePool", {"a"}, window)}, {{"p", p}});
    int differ = 0;
    for (int64_t i = 0; i < 256; ++i) {
      float most = -INFINITY, sum = 0;
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t c = 0; c < 2; ++c) {
          const float x = static_cast<float>(p.get_int((i / 16 * 2 + r) * 32 + i % 16 * 2 + c)) * kFrom;
          most = std::max(most, x);
          sum += x;
        }
      differ += y.get_int(i) != byte(largest ? most : sum / 4);
    }
    CHECK(differ == 0);
  }
}

namespace {

// Bytes -> a sum of products of bytes -> f32, times one scale for each column or filter -> y in steps of t.
// Elements that aren't, operation by operation, what the reference evaluator of ONNX makes of them.
int wrong_sums(const std::string& op, bool relu, const Tensor& scales, float t) {
  const bool conv = op == "ConvInteger";
  const int64_t channels = scales.size(), terms = 3, rows = 1024;
  Tensor x(DType::u8, conv ? std::vector<int64_t>{1, terms, 32, 32} : std::vector<int64_t>{rows, terms});
  Tensor w(DType::i8,
           conv ? std::vector<int64_t>{channels, terms, 1, 1} : std::vector<int64_t>{terms, channels});
  for (int64_t i = 0; i < x.size(); ++i) x.set_int(i, i * 2654435761 >> 7 & 255);
  for (int64_t i = 0; i < w.size(); ++i) w.set_int(i, (i * 40503 >> 3 & 255) - 128);
  constexpr int64_t kZero = 121, kTop = 3;
  Model m;
  m.opsets = {{"", 17}};
  m.inputs = {{"x", DType::u8, {}}};
  for (const int64_t d : x.shape()) m.inputs[0].shape.push_back({d, ""});
  m.outputs = {{"y", DType::i8, {}, false, false}};
  m.initializers = {
      {"w", w},
      {"zx", scalar(DType::u8, kZero)},
      {"m", scales.reshaped(conv ? std::vector<int64_t>{channels, 1, 1} : std::vector<int64_t>{channels})},
      {"t", scalar(DType::f32, t)},
      {"z", scalar(DType::i8, kTop)}};
  m.nodes = {{op, "", "", {"x", "w", "zx"}, {"sum"}, {}, {}},
             {"Cast", "", "", {"sum"}, {"real"}, {{"to", int64_t{1}}}, {}},
             {"Mul", "", "", {"real", "m"}, {"scaled"}, {}, {}},
             {relu ? "Relu" : "Identity", "", "", {"scaled"}, {"r"}, {}, {}},
             {"QuantizeLinear", "", "", {"r", "t", "z"}, {"y"}, {}, {}}};
  CompileOptions options;
  options.schedules = default_schedules();
  const Tensor y =
      make_executor(compile_model(Source{build_graph(m), std::nullopt}, options))->run({{"x", x}}).at("y");
  int differ = 0;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t r = 0; r < rows; ++r) {
      int64_t sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += (x.get_int(conv ? k * rows + r : r * terms + k) - kZero) *
               w.get_int(conv ? c * terms + k : k * channels + c);
      float v = static_cast<float>(sum) * static_cast<float>(scales.get(c));
      if (relu) v = std::max(v, 0.0F);
      const auto want = static_cast<int64_t>(std::nearbyintf(v / t)) + kTop;
      differ += y.get_int(conv ? c * rows + r : r * channels + c) != std::clamp<int64_t>(want, -128, 127);
    }
  return differ;
}

}  // namespace

TEST_CASE("sums of bytes that a model scales itself are requantized to the bit") {
  constexpr int64_t kChannels = 64;
  for (const float t : {0.02F, 0.1F, 0.0371F, 0.03125F}) {
    Tensor scales = Tensor::random(DType::f32, {kChannels}, 7);
    for (int64_t c = 0; c < kChannels; ++c) {  // of several sizes; half of them make many ties
      const auto size = static_cast<float>(std::ldexp(1, -static_cast<int>(c % 9)));
      const auto odd = static_cast<float>(1 + c / 4 * 2);
      scales.set(c, c % 2 == 0 ? t * odd * size / 2 : size * (0.001 + std::fabs(scales.get(c))));
    }
    for (const bool relu : {false, true})
      for (const char* op : {"ConvInteger", "MatMulInteger"}) {
        INFO(op << " to steps of " << t << (relu ? " behind Relu" : ""));
        CHECK(wrong_sums(op, relu, scales, t) == 0);
      }
  }
}
