// Bytes to bytes on the machine, bit for bit as ONNX's definitions come to, operation by operation: no scales
// merged that decide a tie otherwise, nothing contracted.
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
