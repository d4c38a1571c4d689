// Integers that a model computes and takes for sizes, of which --dim says how large they may be.
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("an integer that the model computes may be a size, where --dim says how large it may be") {
  // As many rows as the sum of the durations, each row as often as its duration says.
  OpenModel m(R"({
    "name": "spoken", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 4]}, {"name": "d", "dtype": "i64", "shape": [3]}],
    "outputs": ["y"],
    "nodes": [
      {"op": "ReduceSum", "inputs": ["d"], "outputs": ["length"], "attrs": {"keepdims": 0}},
      {"op": "Range", "inputs": ["zero", "length", "one"], "outputs": ["places"]},
      {"op": "Unsqueeze", "inputs": ["places", "axis"], "outputs": ["column"]},
      {"op": "CumSum", "inputs": ["d", "zero"], "outputs": ["ends"]},
      {"op": "LessOrEqual", "inputs": ["ends", "column"], "outputs": ["passed"]},
      {"op": "Cast", "inputs": ["passed"], "outputs": ["ones"], "attrs": {"to": "i64"}},
      {"op": "ReduceSum", "inputs": ["ones", "axis"], "outputs": ["row"], "attrs": {"keepdims": 0}},
      {"op": "Gather", "inputs": ["x", "row"], "outputs": ["y"]}
    ],
    "weights": {
      "zero": {"dtype": "i64", "shape": [], "data": [0]}, "one": {"dtype": "i64", "shape": [], "data": [1]},
      "axis": {"dtype": "i64", "shape": [1], "data": [1]}
    }
  })");
  CHECK_THROWS_WITH(m.compiled(),
                    ContainsSubstring("--dim length=..512 where it is a size, of at most that"));
  m.options.build.open["length"] = {1, 20, 7};
  const CompiledModel model = m.compiled();
  CHECK(model.graph.symbols->find("length")->typical == 7);
  const std::unique_ptr<Runnable> executor = make_executor(model), artifact = artifact_of(m, model);
  const Tensor x = Tensor::random(DType::f32, {3, 4}, 8);
  const auto durations = [](const std::vector<int64_t>& of) {
    Tensor d(DType::i64, {3});
    for (int64_t i = 0; i < 3; ++i) d.set_int(i, of[static_cast<size_t>(i)]);
    return d;
  };
  for (Runnable* r : {executor.get(), artifact.get()}) {
    for (const auto& of : std::vector<std::vector<int64_t>>{{2, 0, 3}, {1, 0, 0}, {0, 20, 0}}) {
      const Tensor y = r->run({{"x", x}, {"d", durations(of)}}).at("y");
      REQUIRE(y.shape() == std::vector<int64_t>{of[0] + of[1] + of[2], 4});
      for (int64_t i = 0; i < y.size(); ++i) {
        const int64_t place = i / 4, row = place < of[0] ? 0 : place < of[0] + of[1] ? 1 : 2;
        CHECK(y.get(i) == x.get(4 * row + i % 4));
      }
    }
    CHECK_THROWS_WITH(r->run({{"x", x}, {"d", durations({9, 9, 3})}}),
                      ContainsSubstring("length is 21, it was compiled for 1 to 20"));
    CHECK_THROWS_WITH(r->run({{"x", x}, {"d", durations({-9, 3, 3})}}),
                      ContainsSubstring("length is -3, it was compiled for 1 to 20"));
  }
  m.options.build.open = {{"*", {1, 20, 7}}};
  CHECK(m.compiled().graph.symbols->find("length")->most == 20);
  m.options.build.open["lenght"] = {1, 20, 7};
  CHECK_THROWS_WITH(m.compiled(),
                    ContainsSubstring("no input has a dimension lenght, and no integer of that name"));
}

TEST_CASE("the integer to bound is named also where it is cast from a float") {
  const OpenModel m(R"({
    "name": "cast", "opset": 17, "inputs": [{"name": "d", "dtype": "f32", "shape": [3]}], "outputs": ["y"],
    "nodes": [
      {"op": "ReduceSum", "inputs": ["d"], "outputs": ["sum"], "attrs": {"keepdims": 0}},
      {"op": "Cast", "inputs": ["sum"], "outputs": ["length"], "attrs": {"to": "i64"}},
      {"op": "Range", "inputs": ["zero", "length", "one"], "outputs": ["y"]}
    ],
    "weights": {
      "zero": {"dtype": "i64", "shape": [], "data": [0]}, "one": {"dtype": "i64", "shape": [], "data": [1]}
    }
  })");
  CHECK_THROWS_WITH(m.compiled(),
                    ContainsSubstring("--dim length=..512 where it is a size, of at most that"));
}
