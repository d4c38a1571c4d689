// Functions whose sizes stay open have the schedules that functions of known sizes have: layouts, algorithms
// and tiles don't hang on sizes that runs decide.
#include <algorithm>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/print.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string by(int stride) {
  return std::to_string(stride) + "," + std::to_string(stride);
}

// Two 3x3 convolutions of 32 channels, by strides of their own, and the padding of the first and of the
// second.
std::string convolutions(const std::string& shape, int stride, int first = 1, int pad = 1,
                         const std::string& pads = "1, 1, 1, 1") {
  const std::string w = R"({"dtype": "f32", "shape": [32, 32, 3, 3], "data": "ramp"})";
  const std::string text = R"({"name": "two", "opset": 17, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "f32", "shape": )" +
                           shape + R"(}],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "v"], "outputs": ["c"], "attrs": {"pads": [)" +
                           by(pad) + "," + by(pad) + R"(], "strides": [)" + by(first) + R"(]}},
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

// x is of this shape; the weights have as many numbers.
std::string model_of(const std::string& shape, const std::string& nodes, const std::string& weights) {
  return R"({"name": "open", "opset": 17, "outputs": ["y"], "inputs": [{"name": "x", "dtype": "f32", "shape": )" +
         shape + R"(}], "nodes": [)" + nodes + R"(], "weights": {)" + weights + "}}";
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
      OpenModel m(convolutions(R"([1, 32, "height", "width"])", stride, 2, 1, pads));
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
  // Rows of tiles of height, of (height+1)/2, and of (height+1)/2 - 1.
  for (const auto& [first, pad] : {std::pair{1, 1}, {2, 1}, {2, 0}}) {
    const OpenModel m(convolutions(R"(["batch", 32, "height", "width"])", 1, first, pad));

    const CompiledModel open = m.compiled();
    INFO("stride " << first << ", padding " << pad);
    CHECK(all_usual(open));
    CHECK(has_winograd(open) == (m.options.target.lanes(4) >= 8));
    auto executor = make_executor(open);
    for (const auto& [h, w] : {std::pair{40, 24}, {1, 1}, {7, 61}, {16, 16}, {3, 2}, {5, 200}})
      if (pad > 0 || (h > 2 && w > 2)) check_at(m, *executor, {2, 32, h, w});
    check_at(m, *executor, {0, 32, 8, 8});
  }
}

TEST_CASE("columns that leave few beside full tiles have sums of their own, however many rows there are") {
  const OpenModel m(
      with_ramp(model_of(R"([1, "seq", 64])", R"({"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]})",
                         R"("w": {"dtype": "f32", "shape": [64, 100], "data": "ramp"})"),
                64 * 100, 0.01));

  const CompiledModel open = m.compiled();
  CHECK(all_usual(open));
  auto executor = make_executor(open);
  for (const int64_t seq : {1, 9, 40, 131, 0}) check_at(m, *executor, {1, seq, 64});
}

TEST_CASE("few channels are sums over the lanes of blocks, in what is left of a row, too") {
  const OpenModel m(
      with_ramp(with_ramp(model_of(R"([1, 16, "height", "width"])",
                                   R"({"op": "Conv", "inputs": ["x", "v"], "outputs": ["c"]},
                            {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
                            {"op": "Conv", "inputs": ["r", "w"], "outputs": ["y"], "attrs": {"pads": [1, 1, 1, 1]}})",
                                   R"("v": {"dtype": "f32", "shape": [32, 16, 1, 1], "data": "ramp"},
                            "w": {"dtype": "f32", "shape": [8, 32, 3, 3], "data": "ramp"})"),
                          32 * 16, 0.01),
                8 * 32 * 9, 0.01));

  const CompiledModel open = m.compiled();
  for (const CompiledFunction& f : open.funcs) {
    INFO(f.func.name << ", " << f.choice.origin);
    CHECK(f.choice.origin == "default");
  }
  auto executor = make_executor(open);
  for (const auto& [h, w] : {std::pair{20, 24}, {1, 1}, {7, 61}, {2, 5}})
    check_at(m, *executor, {1, 16, h, w});
}

TEST_CASE("a loop over samples has a place in the schedule, where one is usual but weights are many") {
  const OpenModel m(with_ramp(
      model_of(R"(["batch", 1, "samples"])",
               R"({"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attrs": {"strides": [16]}})",
               R"("w": {"dtype": "f32", "shape": [66, 1, 64], "data": "ramp"})"),
      66 * 64, 0.01));

  const CompiledModel open = m.compiled();
  CHECK(open.funcs.at(0).choice.origin == "default");
  auto executor = make_executor(open);
  for (const auto& [batch, samples] : {std::pair{1, 64}, {2, 800}, {3, 333}})
    check_at(m, *executor, {batch, 1, samples});
}

TEST_CASE("rows of many samples are in tiles, where all rows of one would be in registers") {
  const OpenModel m(with_ramp(
      model_of(R"(["batch", 4, 256])", R"({"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]})",
               R"("w": {"dtype": "f32", "shape": [256, 64], "data": "ramp"})"),
      256 * 64, 0.01));

  const CompiledModel open = m.compiled();
  CHECK(open.funcs.at(0).choice.origin == "default");
  auto executor = make_executor(open);
  for (const int64_t batch : {1, 2, 5, 13, 0}) check_at(m, *executor, {batch, 4, 256});
}

TEST_CASE("what a crop leaves of an image is a size of the function's own") {
  const OpenModel m(
      with_ramp(model_of(R"(["batch", 3, "height", "width"])",
                         R"({"op": "Slice", "inputs": ["x", "from", "to", "axes"], "outputs": ["s"]},
                  {"op": "Conv", "inputs": ["s", "w"], "outputs": ["y"]})",
                         R"("from": {"dtype": "i64", "shape": [2], "data": [2, 1]},
                  "to": {"dtype": "i64", "shape": [2], "data": [40, 50]},
                  "axes": {"dtype": "i64", "shape": [2], "data": [2, 3]},
                  "w": {"dtype": "f32", "shape": [8, 3, 3, 3], "data": "ramp"})"),
                8 * 3 * 9, 0.01));

  const CompiledModel open = m.compiled();
  CHECK(all_usual(open));
  auto executor = make_executor(open);
  for (const auto& [h, w] : {std::pair{60, 60}, {5, 4}, {41, 30}, {40, 51}})
    check_at(m, *executor, {2, 3, h, w});
}

TEST_CASE("an image whose channels come last may have any size") {
  const OpenModel m(
      model_of(R"(["batch", "height", "width", 16])",
               R"({"op": "Transpose", "inputs": ["x"], "outputs": ["t"], "attrs": {"perm": [0, 3, 1, 2]}},
         {"op": "Relu", "inputs": ["t"], "outputs": ["r"]},
         {"op": "MaxPool", "inputs": ["r"], "outputs": ["y"], "attrs": {"kernel_shape": [2, 2]}})",
               ""));

  auto executor = make_executor(m.compiled());
  for (const auto& [h, w] : {std::pair{8, 12}, {2, 3}, {33, 17}}) check_at(m, *executor, {2, h, w, 16});
}

TEST_CASE("sizes that the model needs to be equal are one in all functions, the one before that, too") {
  const OpenModel m(with_ramp(R"({"name": "past", "opset": 17, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 16]},
             {"name": "mask", "dtype": "f32", "shape": ["batch", "total", 16]},
             {"name": "keys", "dtype": "f32", "shape": ["batch", "past"]}],
  "nodes": [
    {"op": "Shape", "inputs": ["keys"], "outputs": ["past"], "attrs": {"start": 1}},
    {"op": "Slice", "inputs": ["mask", "past", "all", "axis"], "outputs": ["s"]},
    {"op": "MatMul", "inputs": ["s", "w"], "outputs": ["t"]},
    {"op": "Add", "inputs": ["x", "t"], "outputs": ["y"]}],
  "weights": {"all": {"dtype": "i64", "shape": [1], "data": [100000]},
              "axis": {"dtype": "i64", "shape": [1], "data": [1]},
              "w": {"dtype": "f32", "shape": [16, 16], "data": "ramp"}}})",
                              16 * 16, 0.01));

  const CompiledModel open = m.compiled();
  CHECK(all_usual(open));
  for (const CompiledFunction& f : open.funcs)
    for (const Param& p : f.func.params) {
      INFO(f.func.name);
      if (p.role == Role::out)
        CHECK(print(p.decl.shape[p.decl.shape.size() - 2]).find("seq") != std::string::npos);
    }
  auto executor = make_executor(open);
  const auto inputs = [](int64_t seq, int64_t total, int64_t past) {
    return NamedTensors{{"x", Tensor::random(DType::f32, {2, seq, 16}, 5)},
                        {"mask", Tensor::random(DType::f32, {2, total, 16}, 6)},
                        {"keys", Tensor::random(DType::f32, {2, past}, 7)}};
  };
  for (const auto& [seq, past] : {std::pair{3, 4}, {1, 100}, {40, 0}, {0, 3}}) {
    const NamedTensors given = inputs(seq, seq + past, past);
    check_equal(executor->run(given), m.fixed(given), Tolerance{1e-4, 1e-4});
  }
  CHECK_THROWS_WITH(executor->run(inputs(3, 9, 4)), ContainsSubstring("must hold"));
}

TEST_CASE("a transposed convolution that may be a convolution takes rows of any width") {
  OpenModel m(R"({"name": "t", "opset": 17, "outputs": ["y"],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, "w"]}],
    "nodes": [{"op": "ConvTranspose", "inputs": ["x", "v"], "outputs": ["y"], "attrs": {"pads": [1, 1]}}],
    "weights": {"v": {"dtype": "f32", "shape": [2, 2, 3], "data": [1, 2, -3, 4, 5, 6, -7, 8, 9, 1, 2, 4]}}})");
  auto executor = make_executor(m.compiled());
  for (const int64_t width : {1, 2, 5, 40}) check_at(m, *executor, {1, 2, width});
}

TEST_CASE("an extremum of an open axis needs an element") {
  OpenModel m(R"({"name": "best", "opset": 17, "outputs": ["y"],
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3]}],
    "nodes": [{"op": "ArgMax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": 0}}]})");
  auto executor = make_executor(m.compiled());
  check_at(m, *executor, {4, 3});
  CHECK_THROWS_WITH(executor->run({{"x", Tensor(DType::f32, {0, 3})}}),
                    Catch::Contains("an extremum is one of the axis' elements"));
}
