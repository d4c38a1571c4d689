// Sizes of runs that nobody should give: each ends with a message that names what is wrong, before any kernel
// runs, in this process and as an artifact.
#include "nestor/artifact.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

// As many elements as all combinations of three lists' have.
const char* const kProduct = R"({
  "name": "product", "opset": 17,
  "inputs": [{"name": "a", "dtype": "f32", "shape": ["n"]}, {"name": "b", "dtype": "f32", "shape": ["m"]},
             {"name": "c", "dtype": "f32", "shape": ["k"]}],
  "outputs": ["y"],
  "nodes": [
    {"op": "Shape", "inputs": ["a"], "outputs": ["of_a"]},
    {"op": "Shape", "inputs": ["b"], "outputs": ["of_b"]},
    {"op": "Shape", "inputs": ["c"], "outputs": ["of_c"]},
    {"op": "Mul", "inputs": ["of_a", "of_b"], "outputs": ["two"]},
    {"op": "Mul", "inputs": ["two", "of_c"], "outputs": ["three"]},
    {"op": "ReduceSum", "inputs": ["a", "axis"], "outputs": ["sum"]},
    {"op": "Expand", "inputs": ["sum", "three"], "outputs": ["y"]}
  ],
  "weights": {"axis": {"dtype": "i64", "shape": [1], "data": [0]}}
})";

// The convolution needs a row, and the Reshape divides by the rows.
const char* const kRows = R"({
  "name": "rows", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 1, "h", 8]}, {"name": "b", "dtype": "f32", "shape": ["m"]}],
  "outputs": ["y", "z"],
  "nodes": [
    {"op": "MaxPool", "inputs": ["x"], "outputs": ["y"], "attrs": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}},
    {"op": "Shape", "inputs": ["x"], "outputs": ["rows"], "attrs": {"start": 2, "end": 3}},
    {"op": "Concat", "inputs": ["rows", "left"], "outputs": ["shape"], "attrs": {"axis": 0}},
    {"op": "Reshape", "inputs": ["b", "shape"], "outputs": ["z"]}
  ],
  "weights": {"left": {"dtype": "i64", "shape": [1], "data": [-1]}}
})";

// Each checks a run in this process, and one of an artifact.
struct Both {
  explicit Both(const char* text, std::map<std::string, OpenSize> bounds = {}) : model(text) {
    model.options.build.open = std::move(bounds);
    const CompiledModel compiled = model.compiled();
    ArtifactOptions options;
    options.path = model.folder / "m.so";
    write_artifact(*compiled.plan, compiled.lowered(), compiled.target, options);
    runs.push_back(make_executor(compiled));
    runs.push_back(load_artifact(options.path));
  }
  void refuses(const std::vector<Runnable::Shape>& shapes, const char* why) const {
    INFO(why);
    for (const auto& r : runs) CHECK_THROWS_WITH(r->fit(shapes), ContainsSubstring(why));
  }
  void takes(const std::vector<Runnable::Shape>& shapes, const std::vector<Runnable::Shape>& made) const {
    for (const auto& r : runs) CHECK(r->fit(shapes) == made);
  }

  OpenModel model;
  std::vector<std::unique_ptr<Runnable>> runs;
};

}  // namespace

TEST_CASE("a size whose computation overflows is refused, though what is left of it would be small") {
  const Both product(kProduct);
  product.takes({{2}, {3}, {4}}, {{24}});
  const int64_t big = int64_t{1} << 22;  // its cube is 0 in 64 bits
  product.refuses({{big}, {big}, {big}}, "n * m * k is too large; dimension 0 of input 'a' (n) is 4194304");
  product.refuses({{big}, {2 * big}, {2 * big}}, "(k) is 8388608");
  product.refuses({{big}, {big}, {1024}}, "too large");
  product.takes({{0}, {big}, {big}}, {{0}});
}

TEST_CASE("a division by a size that must not be 0 is refused, also where another operator says it isn't") {
  const Both rows(kRows);
  rows.takes({{1, 1, 4, 8}, {20}}, {{1, 1, 4, 8}, {4, 5}});
  rows.refuses({{1, 1, 0, 8}, {20}}, "(h) is 0");
  rows.refuses({{1, 1, 3, 8}, {20}}, "m % h == 0 must hold");
}

TEST_CASE("sizes out of bounds, negative or huge are refused by the dimension's name") {
  const Both product(kProduct, {{"n", {1, 64, 8}}});
  for (const int64_t n : {kLeast, int64_t{-1}, int64_t{0}, int64_t{65}, kMost})
    product.refuses({{n}, {1}, {1}}, ("dimension 0 of input 'a' (n) is " + std::to_string(n)).c_str());
  for (const int64_t m : {kLeast, int64_t{-1}, Symbols::kMost + 1, kMost})
    product.refuses({{1}, {m}, {1}}, ("dimension 0 of input 'b' (m) is " + std::to_string(m)).c_str());
  const Both rows(kRows);
  for (const int64_t other : {kLeast, int64_t{-1}, int64_t{0}, int64_t{7}, kMost})
    rows.refuses({{1, 1, 2, other}, {2}}, ("dimension 3 of input 'x' is " + std::to_string(other)).c_str());
}

TEST_CASE("shapes of another number of dimensions, or of other inputs, are refused") {
  const Both rows(kRows);
  rows.refuses({{1, 1, 2}, {2}}, "input 'x' is given with 3 dimensions: the model takes f32[1,1,h,8]");
  rows.refuses({{1, 1, 2, 8}, {}}, "input 'b' is given with 0 dimensions");
  rows.refuses({{1, 1, 2, 8}}, "1 shapes are given");
}

TEST_CASE("sizes for which there isn't enough memory are refused by name, and the next sizes are taken") {
  const Both rows(R"({
    "name": "scores", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["seq", 8]}],
    "outputs": ["y"],
    "nodes": [
      {"op": "Transpose", "inputs": ["x"], "outputs": ["t"], "attrs": {"perm": [1, 0]}},
      {"op": "MatMul", "inputs": ["x", "t"], "outputs": ["scores"]},
      {"op": "Softmax", "inputs": ["scores"], "outputs": ["p"], "attrs": {"axis": 0}},
      {"op": "MatMul", "inputs": ["p", "x"], "outputs": ["y"]}
    ]
  })");
  rows.refuses({{4000000, 8}}, "dimension 0 of input 'x' (seq) is 4000000");  // 64 TB of scores
  rows.takes({{3, 8}}, {{3, 8}});
}
