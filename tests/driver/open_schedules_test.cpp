// Functions whose sizes stay open have the schedules that functions of known sizes have: layouts, algorithms
// and tiles don't hang on sizes that runs decide.
#include <algorithm>

#include "catch.h"
#include "nestor/driver.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

std::string weights(int64_t count) {
  std::string values = "[";
  for (int64_t i = 0; i < count; ++i) values += (i ? "," : "") + std::to_string(i * 7 % 11 - 5) + "e-2";
  return values + "]";
}

// Two 3x3 convolutions of 32 channels, the second by `stride`.
std::string convolutions(const std::string& shape, int stride) {
  const std::string w = R"({"dtype": "f32", "shape": [32, 32, 3, 3], "data": )" + weights(32 * 32 * 9) + "}";
  return R"({"name": "two", "opset": 17, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "f32", "shape": )" +
         shape + R"(}],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "v"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "Conv", "inputs": ["r", "w"], "outputs": ["d"], "attrs": {"pads": [1, 1, 1, 1], "strides": [)" +
         std::to_string(stride) + "," + std::to_string(stride) + R"(]}},
    {"op": "Relu", "inputs": ["d"], "outputs": ["y"]}],
  "weights": {"v": )" +
         w + R"(, "w": )" + w + "}}";
}

struct OfSizes {
  explicit OfSizes(const std::string& text) : path(folder.write("model.json", text)) {
    options.schedules = default_schedules();
  }
  CompiledModel open() {
    options.build.symbolic = true;
    return compile_model(path, options);
  }
  NamedTensors known(const NamedTensors& inputs) const {
    CompileOptions known;
    known.schedules = default_schedules();
    for (const auto& [name, tensor] : inputs) known.build.shapes[name] = tensor.shape();
    return make_executor(compile_model(path, known))->run(inputs);
  }
  void check(Executor& executor, const std::vector<int64_t>& shape) const {
    const NamedTensors x = {{"x", Tensor::random(DType::f32, shape, 5)}};
    const NamedTensors want = known(x);
    const Comparison c = compare(executor.run(x).at("y"), want.at("y"), Tolerance{1e-4, 1e-4});
    INFO(describe(c, "y", want.at("y")));
    CHECK(c.ok());
  }

  Folder folder;
  CompileOptions options;
  std::string path;
};

bool all_usual(const CompiledModel& m) {
  return std::all_of(m.funcs.begin(), m.funcs.end(), [](const CompiledFunction& f) {
    return f.choice.origin == "default" && !f.choice.reduced;
  });
}

}  // namespace

TEST_CASE("where only the number of samples is open, layouts and algorithms are those of one sample") {
  OfSizes m(convolutions(R"(["batch", 32, 30, 30])", 1));

  const CompiledModel open = m.open();
  CHECK(all_usual(open));
  if (m.options.target.lanes(4) >= 8) {
    const auto& nodes = open.graph.nodes;
    CHECK(std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == "WinogradConv"; }));
    CHECK_FALSE(open.partition.blocked.empty());
  }
  auto executor = make_executor(open);
  for (const int64_t batch : {1, 3, 2}) m.check(*executor, {batch, 32, 30, 30});
}

TEST_CASE("convolutions over images of any size keep their tiles") {
  for (const int stride : {1, 2}) {
    OfSizes m(convolutions(R"(["batch", 32, "height", "width"])", stride));

    const CompiledModel open = m.open();
    INFO("stride " << stride);
    for (const CompiledFunction& f : open.funcs) {
      INFO(f.func.name << ", " << f.choice.origin);
      CHECK(f.choice.origin == "default");
    }
    auto executor = make_executor(open);
    for (const auto& [h, w] : {std::pair{40, 24}, {1, 1}, {7, 61}, {16, 16}})
      m.check(*executor, {2, 32, h, w});
  }
}
