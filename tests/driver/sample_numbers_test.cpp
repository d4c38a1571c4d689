// Values that depend on which sample they are of: not every function of samples can be run for one at a time.
#include "catch.h"
#include "nestor/driver.h"
#include "tests/graph/files.h"

using namespace nestor;

TEST_CASE("values that are computed from the number of their sample are right for all samples") {
  Folder folder;
  const std::string path = folder.write("model.json", R"({
    "name": "mask", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", "n"]}],
    "outputs": ["y"],
    "nodes": [
      {"op": "Shape", "inputs": ["x"], "outputs": ["s"]},
      {"op": "Gather", "inputs": ["s", "zero"], "outputs": ["n"]},
      {"op": "Range", "inputs": ["zero", "n", "one"], "outputs": ["r"]},
      {"op": "Unsqueeze", "inputs": ["r", "first"], "outputs": ["u"]},
      {"op": "Unsqueeze", "inputs": ["r", "second"], "outputs": ["v"]},
      {"op": "LessOrEqual", "inputs": ["u", "v"], "outputs": ["le"]},
      {"op": "Where", "inputs": ["le", "x", "c"], "outputs": ["y"]}
    ],
    "weights": {
      "zero": {"dtype": "i64", "shape": [], "data": [0]}, "one": {"dtype": "i64", "shape": [], "data": [1]},
      "first": {"dtype": "i64", "shape": [1], "data": [0]}, "second": {"dtype": "i64", "shape": [1], "data": [1]},
      "c": {"dtype": "f32", "shape": [], "data": [3.5]}
    }
  })");
  CompileOptions options;
  options.schedules = default_schedules();
  options.build.symbolic = true;
  auto executor = make_executor(compile_model(path, options));
  for (const int64_t n : {1, 2, 7, 40}) {
    INFO(n << " rows");
    const Tensor x = Tensor::random(DType::f32, {n, n}, 1);
    const Tensor y = executor->run({{"x", x}}).at("y");
    for (int64_t i = 0; i < n * n; ++i) CHECK(y.get(i) == (i % n <= i / n ? x.get(i) : 3.5));
  }
}
