// Functions whose sizes stay open have the schedules that functions of known sizes have: layouts, algorithms
// and tiles don't hang on sizes that runs decide.
#include <algorithm>

#include "catch.h"
#include "nestor/codegen.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

std::string by(int stride) {
  return std::to_string(stride) + "," + std::to_string(stride);
}

// Two 3x3 convolutions of 32 channels, by strides of their own.
std::string convolutions(const std::string& shape, int stride, int first = 1,
                         const std::string& pads = "1, 1, 1, 1") {
  const std::string w = R"({"dtype": "f32", "shape": [32, 32, 3, 3], "data": "ramp"})";
  const std::string text = R"({"name": "two", "opset": 17, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "f32", "shape": )" +
                           shape + R"(}],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "v"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1], "strides": [)" +
                           by(first) + R"(]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "Conv", "inputs": ["r", "w"], "outputs": ["d"], "attrs": {"pads": [)" +
                           pads + R"(], "strides": [)" + by(stride) + R"(]}},
    {"op": "Relu", "inputs": ["d"], "outputs": ["y"]}],
  "weights": {"v": )" + w + R"(, "w": )" +
                           w + "}}";
  return with_ramp(with_ramp(text, 32 * 32 * 9, 0.01), 32 * 32 * 9, 0.01);
}

void check_at(const OpenModel& m, Executor& executor, const std::vector<int64_t>& shape) {
  const NamedTensors x = {{"x", Tensor::random(DType::f32, shape, 5)}};
  check_equal(executor.run(x), m.fixed(x), Tolerance{1e-4, 1e-4});
}

bool has_winograd(const CompiledModel& m) {
  const auto& nodes = m.graph.nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == "WinogradConv"; });
}

bool all_usual(const CompiledModel& m) {
  return std::all_of(m.funcs.begin(), m.funcs.end(), [](const CompiledFunction& f) {
    return f.choice.origin == "default" && !f.choice.reduced;
  });
}

}  // namespace

TEST_CASE("where only the number of samples is open, layouts and algorithms are those of one sample") {
  const OpenModel m(convolutions(R"(["batch", 32, 30, 30])", 1));

  const CompiledModel open = m.compiled();
  CHECK(all_usual(open));
  if (m.options.target.lanes(4) >= 8) {
    CHECK(has_winograd(open));
    CHECK_FALSE(open.partition.blocked.empty());
  }
  auto executor = make_executor(open);
  for (const int64_t batch : {1, 3, 2}) check_at(m, *executor, {batch, 32, 30, 30});
}

TEST_CASE("convolutions over images of any size keep their tiles") {
  for (const int stride : {1, 2}) {
    const OpenModel m(convolutions(R"(["batch", 32, "height", "width"])", stride));

    const CompiledModel open = m.compiled();
    INFO("stride " << stride);
    for (const CompiledFunction& f : open.funcs) {
      INFO(f.func.name << ", " << f.choice.origin);
      CHECK(f.choice.origin == "default");
    }
    auto executor = make_executor(open);
    for (const auto& [h, w] : {std::pair{40, 24}, {1, 1}, {7, 61}, {16, 16}})
      check_at(m, *executor, {2, 32, h, w});
  }
}

TEST_CASE("rows of an image of any width are convolved in tiles with masks at its borders") {
  // Of the last ones some windows begin behind the image, or all of the first before it.
  for (const char* pads : {"1, 1, 1, 1", "0, 0, 0, 0", "1, 0, 1, 7", "2, 9, 0, 2"})
    for (const int stride : {1, 2}) {
      OpenModel m(convolutions(R"([1, 32, "height", "width"])", stride, 2, pads));
      m.options.exact_conv = true;
      auto executor = make_executor(m.compiled());
      INFO("pads " << pads << ", stride " << stride);
      for (const int64_t width : {5, 6, 7, 8, 9, 13, 16, 27, 30, 59})
        check_at(m, *executor, {1, 32, 6, width});
    }
}

TEST_CASE("Convolutions over images of any width have little more code than over those of one") {
  for (const int stride : {1, 2}) {
    OpenModel m(convolutions(R"([1, 32, "height", "width"])", stride));
    m.options.exact_conv = true;
    m.options.target = parse_target("x86-64-v4");
    const auto lines = [&](const CompiledModel& model) {
      std::vector<PrimFunc> convolved;
      for (const PrimFunc& f : model.lowered())
        if (f.name.starts_with("conv2d")) convolved.push_back(f);
      const std::string code = emit_llvm_ir(convolved, m.options.target);
      return std::count(code.begin(), code.end(), '\n');
    };
    INFO("stride " << stride);
    CHECK(lines(m.compiled()) < 2 * lines(m.known({{"x", Tensor::random(DType::f32, {1, 32, 58, 58}, 5)}})));
  }
}

TEST_CASE("Winograd's algorithm takes images of any size") {
  for (const int first : {1, 2}) {  // rows of tiles of height, and of (height+1)/2
    const OpenModel m(convolutions(R"(["batch", 32, "height", "width"])", 1, first));

    const CompiledModel open = m.compiled();
    INFO("stride " << first);
    CHECK(all_usual(open));
    CHECK(has_winograd(open) == (m.options.target.lanes(4) >= 8));
    auto executor = make_executor(open);
    for (const auto& [h, w] : {std::pair{40, 24}, {1, 1}, {7, 61}, {16, 16}, {3, 2}, {5, 200}})
      check_at(m, *executor, {2, 32, h, w});
    check_at(m, *executor, {0, 32, 8, 8});
  }
}
