// Models whose sizes stay open: one compiled model runs on inputs of any size, in this process, as an
// artifact and from C; sizes that can't be are refused before anything runs.
#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/driver.h"
#include "nestor/print.h"
#include "tests/command.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using nestor::testing::check_equal;
using nestor::testing::output_of;

namespace {

// Attention over `seq` words, as exporters write it: the shape of a Reshape is computed from the input's.
const char* const kAttention = R"({
  "name": "attention", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 32]}],
  "outputs": ["y"],
  "nodes": [
    {"op": "Shape", "inputs": ["x"], "outputs": ["shape"], "attrs": {"end": 2}},
    {"op": "Concat", "inputs": ["shape", "heads"], "outputs": ["split"], "attrs": {"axis": 0}},
    {"op": "Reshape", "inputs": ["x", "split"], "outputs": ["r"]},
    {"op": "Transpose", "inputs": ["r"], "outputs": ["q"], "attrs": {"perm": [0, 2, 1, 3]}},
    {"op": "Transpose", "inputs": ["r"], "outputs": ["k"], "attrs": {"perm": [0, 2, 3, 1]}},
    {"op": "MatMul", "inputs": ["q", "k"], "outputs": ["scores"]},
    {"op": "Softmax", "inputs": ["scores"], "outputs": ["p"], "attrs": {"axis": -1}},
    {"op": "MatMul", "inputs": ["p", "q"], "outputs": ["o"]},
    {"op": "Transpose", "inputs": ["o"], "outputs": ["t"], "attrs": {"perm": [0, 2, 1, 3]}},
    {"op": "Concat", "inputs": ["shape", "width"], "outputs": ["joined"], "attrs": {"axis": 0}},
    {"op": "Reshape", "inputs": ["t", "joined"], "outputs": ["z"]},
    {"op": "Add", "inputs": ["z", "x"], "outputs": ["y"]}
  ],
  "weights": {
    "heads": {"dtype": "i64", "shape": [2], "data": [4, 8]},
    "width": {"dtype": "i64", "shape": [1], "data": [32]}
  }
})";

const char* const kImages = R"({
  "name": "images", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 3, "height", "width"]}],
  "outputs": ["y"],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "w"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "MaxPool", "inputs": ["r"], "outputs": ["m"], "attrs": {"kernel_shape": [2, 2], "strides": [2, 2]}},
    {"op": "GlobalAveragePool", "inputs": ["m"], "outputs": ["y"]}
  ],
  "weights": {"w": {"dtype": "f32", "shape": [2, 3, 3, 3], "data": "ramp"}}
})";

struct Compiled : testing::OpenModel {
  explicit Compiled(const char* text) : OpenModel(testing::with_ramp(text, 54, 0.1)) {}
};

NamedTensors input(std::vector<int64_t> shape) {
  return {{"x", Tensor::random(DType::f32, std::move(shape), 3)}};
}

}  // namespace

TEST_CASE("one compiled model runs on inputs of all sizes") {
  SECTION("words") {
    const Compiled c(kAttention);
    const CompiledModel model = c.compiled();
    CHECK(print(model.graph).find("q: f32[batch,4,seq,8]") != std::string::npos);
    auto executor = make_executor(model);
    for (const auto& [batch, seq] : {std::pair{1, 128}, {3, 17}, {2, 1}, {1, 128}, {5, 33}}) {
      INFO(batch << " texts of " << seq);
      const NamedTensors x = input({batch, seq, 32});
      check_equal(executor->run(x), c.fixed(x));
    }
  }
  SECTION("images") {
    const Compiled c(kImages);
    auto executor = make_executor(c.compiled());
    for (const auto& [height, width] : {std::pair{8, 8}, {31, 5}, {2, 2}, {64, 33}}) {
      INFO(height << " x " << width);
      const NamedTensors x = input({2, 3, height, width});
      check_equal(executor->run(x), c.fixed(x));
    }
  }
}

TEST_CASE("samples whose number alone is open are computed one by one, with the schedule of one") {
  std::string text = kImages;
  for (const char* size : {"\"height\"", "\"width\""})
    text.replace(text.find(size), std::string(size).size(), "9");
  for (const int threads : {1, 2}) {
    Compiled c(text.c_str());
    c.options.threads = threads;
    const CompiledModel model = c.compiled();
    const auto convolution =
        std::find_if(model.funcs.begin(), model.funcs.end(),
                     [](const CompiledFunction& f) { return f.func.name.starts_with("conv2d"); });
    REQUIRE(convolution != model.funcs.end());
    CHECK(print(convolution->lowered).find("for sample in batch") != std::string::npos);
    CHECK(convolution->choice.trace.given_up.empty());
    auto executor = make_executor(model);
    for (const int64_t batch : {1, 5, 2}) {
      INFO(batch << " images, " << threads << " threads");
      const NamedTensors x = input({batch, 3, 9, 9});
      check_equal(executor->run(x), c.fixed(x));
    }
  }
}

TEST_CASE("rows that differ by their number are no samples") {
  Compiled c(R"({
    "name": "triangle", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 17]}],
    "outputs": ["y"],
    "nodes": [{"op": "Trilu", "inputs": ["x"], "outputs": ["y"]}]
  })");
  auto executor = make_executor(c.compiled());
  for (const int64_t rows : {1, 5, 40})
    check_equal(executor->run(input({rows, 17})), c.fixed(input({rows, 17})));
}

TEST_CASE("sizes out of bounds, or that contradict each other, end a run before it begins") {
  Compiled c(testing::kTwoInputs);
  c.options.build.open["n"] = {2, 10, 4};
  auto executor = make_executor(c.compiled());
  const auto run = [&](int64_t n, int64_t m) {
    return executor->run(
        {{"a", Tensor::random(DType::f32, {n, 4}, 1)}, {"b", Tensor::random(DType::f32, {m, 4}, 2)}});
  };
  CHECK(run(3, 3).at("y").shape() == std::vector<int64_t>{3, 4});
  CHECK_THROWS_WITH(run(11, 11), "error: dimension 0 of input 'a' (n) is 11, it was compiled for 2 to 10");
  CHECK_THROWS_WITH(run(1, 1), Catch::Matchers::ContainsSubstring("compiled for 2 to 10"));
  CHECK_THROWS_WITH(run(3, 4), Catch::Matchers::ContainsSubstring("must hold"));
  CHECK(run(10, 10).at("y").shape() == std::vector<int64_t>{10, 4});
}

TEST_CASE("sizes whose names differ only by what no variable has are two") {
  std::string text = testing::kTwoInputs;
  text.replace(text.find("\"n\""), 3, "\"n.1\"").replace(text.find("\"m\""), 3, "\"n_1\"");
  text.replace(text.find("\"Add\""), 5, "\"Concat\"")
      .replace(text.find("[\"y\"]}]"), 5, "[\"y\"], \"attrs\": {\"axis\": 0}");
  const Compiled c(text.c_str());
  auto executor = make_executor(c.compiled());
  CHECK(executor->fit({{3, 4}, {2, 4}}) == std::vector<Runnable::Shape>{{5, 4}});
}

TEST_CASE("what says an open size is read, or refused") {
  const auto read = [](const char* text) {
    const auto size = parse_open_size("--dim n", text);
    return size ? std::vector<int64_t>{size->least, size->most, size->typical} : std::vector<int64_t>{};
  };
  CHECK(read("1..64~16") == std::vector<int64_t>{1, 64, 16});
  CHECK(read("..64") == std::vector<int64_t>{0, 64, 0});
  CHECK(read("~16") == std::vector<int64_t>{0, Symbols::kMost, 16});
  CHECK(read("0..4") == std::vector<int64_t>{0, 4, 0});
  CHECK(read("16").empty());
  for (const char* text : {"-1..4", "5..4", "1..x", "x~4", "1..4~9", "1..99999999999999999999", "~", "1..4~"})
    CHECK_THROWS_WITH(parse_open_size("--dim n", text), Catch::Matchers::ContainsSubstring("says no sizes"));
}

TEST_CASE("a size that no memory holds is refused, whatever the product is") {
  Compiled c(kAttention);
  auto executor = make_executor(c.compiled());
  const std::vector<int64_t> huge = {int64_t{1} << 31, int64_t{1} << 31, 32};
  CHECK_THROWS_WITH(executor->fit({huge}), Catch::Matchers::ContainsSubstring("too large"));
  CHECK(executor->fit({{2, 3, 32}}) == std::vector<Runnable::Shape>{{2, 3, 32}});
}

TEST_CASE("an artifact runs on inputs of all sizes, from C too") {
  const Compiled c(kAttention);
  const CompiledModel model = c.compiled();
  ArtifactOptions artifact;
  artifact.path = c.folder / "m.so";
  write_artifact(*model.plan, model.lowered(), model.target, artifact);
  auto loaded = load_artifact(artifact.path);
  auto executor = make_executor(model);
  for (const auto& [batch, seq] : {std::pair{2, 9}, {1, 70}, {1, 1}}) {
    const NamedTensors x = input({batch, seq, 32});
    const Tensor got = loaded->run(x).at("y"), want = executor->run(x).at("y");
    REQUIRE(got.shape() == want.shape());
    CHECK(std::equal(got.as<float>().begin(), got.as<float>().end(), want.as<float>().begin()));
  }
  CHECK_THROWS_WITH(loaded->fit({{-1, 4, 32}}), Catch::Matchers::ContainsSubstring("(batch) is -1"));
  CHECK_THROWS_WITH(loaded->fit({{1, 4, 31}}), "error: dimension 2 of input 'x' is 31, it must be 32");

  c.folder.write("main.c", R"(
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
int main(void) {
  struct m* model = m_create(NULL);
  struct m_outputs out;
  struct m_inputs in;
  float none[32];
  in.x = none;
  out.y = none;
  if (m_run(model, &in, &out) != M_BAD_SIZES) return 1;  /* nothing was fitted */
  for (int64_t seq = 5; seq > 0; --seq) {
    const struct m_input_shapes shapes = {{2, seq, 32}};
    struct m_output_shapes made;
    if (m_fit(model, &shapes, &made)) return 2;
    float* x = malloc((size_t)(2 * seq * 32) * sizeof *x);
    float* y = malloc((size_t)(made.y[0] * made.y[1] * made.y[2]) * sizeof *y);
    for (int64_t i = 0; i < 2 * seq * 32; ++i) x[i] = 1;
    in.x = x;
    out.y = y;
    if (m_run(model, &in, &out)) return 3;
    printf("%d,%d,%d: %g\n", (int)made.y[0], (int)made.y[1], (int)made.y[2], y[2 * seq * 32 - 1]);
    free(x);
    free(y);
  }
  const struct m_input_shapes bad = {{2, -3, 32}};
  printf("%d %s\n", m_fit(model, &bad, NULL), m_why(model));
  printf("%d\n", (int)m_memory_size(&bad));
  m_destroy(model);
  return 0;
}
)");
  const std::string main = c.folder / "main";
  output_of("cc -std=c11 -Wall -Wextra -Werror -I" + (c.folder / "") + " " + main + ".c " + artifact.path +
            " -Wl,-rpath," + (c.folder / "") + " -o " + main);
  CHECK(output_of(main) ==
        "2,5,32: 2\n2,4,32: 2\n2,3,32: 2\n2,2,32: 2\n2,1,32: 2\n"
        "5 dimension 1 of input 'x' (seq) is -3, it was compiled for 0 to 2147483648\n-1\n");
}
