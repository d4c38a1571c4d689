// Sizes that values decide while a model runs: NonZero, Compress, NonMaxSuppression, and what follows them.
#include <random>

#include "nestor/specialize.h"
#include "tests/command.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor mask_of(const std::vector<int>& chosen) {
  Tensor t(DType::boolean, {static_cast<int64_t>(chosen.size())});
  for (size_t i = 0; i < chosen.size(); ++i) t.set_int(static_cast<int64_t>(i), chosen[i]);
  return t;
}

std::vector<int> drawn(std::mt19937& rng, int count, double share) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(std::bernoulli_distribution(share)(rng));
  return out;
}

// The rows that a mask chooses, through a product; how many they are; and ones in their number, which nothing
// but the size leads to.
const char* const kRows = R"({
  "name": "rows", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": [40, 8]}, {"name": "m", "dtype": "bool", "shape": [40]}],
  "outputs": ["y", "count", "ones"],
  "nodes": [
    {"op": "NonZero", "inputs": ["m"], "outputs": ["places"]},
    {"op": "Shape", "inputs": ["places"], "outputs": ["shape"]},
    {"op": "Gather", "inputs": ["shape", "one"], "outputs": ["count"]},
    {"op": "Unsqueeze", "inputs": ["count", "zero"], "outputs": ["size"]},
    {"op": "ConstantOfShape", "inputs": ["size"], "outputs": ["c"]},
    {"op": "Exp", "inputs": ["c"], "outputs": ["ones"]},
    {"op": "Compress", "inputs": ["x", "m"], "outputs": ["chosen"], "attrs": {"axis": 0}},
    {"op": "MatMul", "inputs": ["chosen", "w"], "outputs": ["p"]},
    {"op": "Softmax", "inputs": ["p"], "outputs": ["y"], "attrs": {"axis": -1}}
  ],
  "weights": {
    "one": {"dtype": "i64", "shape": [], "data": [1]},
    "zero": {"dtype": "i64", "shape": [1], "data": [0]},
    "w": {"dtype": "f32", "shape": [8, 6], "data": "ramp"}
  }
})";

// The same model with the mask as a constant, whose sizes are all known.
NamedTensors with_known(const OpenModel& m, NamedTensors inputs, const std::vector<std::string>& names) {
  CompileOptions known = m.options;
  for (const std::string& name : names) {
    known.build.constants.insert_or_assign(name, TensorSource(name, inputs.at(name)));
    inputs.erase(name);
  }
  const CompiledModel model = compile_model(m.path, known);
  CHECK(model.graph.symbols == nullptr);
  return make_executor(model)->run(inputs);
}

}  // namespace

TEST_CASE("rows that values choose are computed as if they had been chosen when compiling") {
  const OpenModel m(with_ramp(kRows, 48, 0.1));
  const CompiledModel model = m.compiled();
  const std::unique_ptr<Runnable> executor = make_executor(model), artifact = artifact_of(m, model);
  std::mt19937 rng(1);
  for (const double share : {0.5, 0.0, 1.0, 0.1, 0.9}) {
    NamedTensors inputs = {{"x", Tensor::random(DType::f32, {40, 8}, 3)},
                           {"m", mask_of(drawn(rng, 40, share))}};
    const NamedTensors want = with_known(m, inputs, {"m"});
    for (Runnable* r : {executor.get(), artifact.get()}) {
      CHECK(r->fit({{40, 8}, {40}}) == std::vector<Runnable::Shape>{{40, 6}, {}, {40}});
      check_equal(r->run(inputs), want);
      CHECK(r->made().at(0) == want.at("y").shape());
    }
  }
}

TEST_CASE("places in tensors of any rank are those of constants, also of open sizes and of none") {
  const char* const kPlaces = R"({
    "name": "places", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": SHAPE}], "outputs": ["y"],
    "nodes": [{"op": "NonZero", "inputs": ["x"], "outputs": ["y"]}]
  })";
  std::mt19937 rng(2);
  const auto shaped = [&](const std::string& shape, const std::vector<int64_t>& sizes) {
    std::string text = kPlaces;
    const OpenModel m(text.replace(text.find("SHAPE"), 5, shape));
    const auto executor = make_executor(m.compiled());
    for (const double share : {0.4, 0.0, 1.0}) {
      Tensor x(DType::f32, sizes);
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::bernoulli_distribution(share)(rng) ? -2.5 : 0);
      INFO(shape << " " << share);
      check_equal(executor->run({{"x", x}}), with_known(m, {{"x", x}}, {"x"}));
    }
  };
  shaped("[]", {});
  shaped("[9]", {9});
  shaped("[2, 3, 5]", {2, 3, 5});
  shaped("[\"a\", \"b\"]", {7, 4});
  shaped("[\"a\", 3]", {0, 3});
}

TEST_CASE("boxes kept at run time are those kept when compiling, by other code") {
  const char* const kKept = R"({
    "name": "kept", "opset": 17,
    "inputs": [{"name": "boxes", "dtype": "f32", "shape": [2, 30, 4]},
               {"name": "scores", "dtype": "f32", "shape": [2, 3, 30]}],
    "outputs": ["y"],
    "nodes": [{"op": "NonMaxSuppression", "inputs": ["boxes", "scores", "most", "overlap", LEAST],
               "outputs": ["y"], "attrs": {"center_point_box": CENTRE}}],
    "weights": {
      "most": {"dtype": "i64", "shape": [], "data": [MOST]},
      "overlap": {"dtype": "f32", "shape": [1], "data": [0.3]},
      "least": {"dtype": "f32", "shape": [], "data": [0.25]}
    }
  })";
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> at(0, 10), size(0.5, 4), score(0, 1);
  for (const auto& [most, least, centred] :
       {std::tuple{"5", "\"least\"", false}, {"30", "\"\"", true}, {"0", "\"least\"", false}}) {
    std::string text = kKept;
    text.replace(text.find("LEAST"), 5, least).replace(text.find("MOST"), 4, most);
    text.replace(text.find("CENTRE"), 6, centred ? "1" : "0");
    const OpenModel m(text);
    const CompiledModel model = m.compiled();
    const std::unique_ptr<Runnable> executor = make_executor(model), artifact = artifact_of(m, model);
    for (int run = 0; run < 4; ++run) {
      Tensor boxes(DType::f32, {2, 30, 4}), scores(DType::f32, {2, 3, 30});
      for (int64_t b = 0; b < 60; ++b) {
        const double x = at(rng), y = at(rng), w = size(rng), h = size(rng);
        const double corners[] = {y, x, y + h, x + w}, centre[] = {x, y, w, h};
        for (int64_t k = 0; k < 4; ++k)  // any two opposite corners
          boxes.set(4 * b + k, centred ? centre[k] : corners[b % 2 ? k : (k + 2) % 4]);
      }
      for (int64_t i = 0; i < scores.size(); ++i) scores.set(i, score(rng));
      const NamedTensors inputs = {{"boxes", boxes}, {"scores", scores}};
      const NamedTensors want = with_known(m, inputs, {"boxes", "scores"});
      check_equal(executor->run(inputs), want);
      check_equal(artifact->run(inputs), want);
    }
  }
}

TEST_CASE("different elements, where they stand and how often, sorted or as they come") {
  for (const bool sorted : {true, false}) {
    const OpenModel m(std::string(R"({
      "name": "unique", "opset": 17,
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 5]}], "outputs": ["y", "first", "inverse", "count"],
      "nodes": [{"op": "Unique", "inputs": ["x"], "outputs": ["y", "first", "inverse", "count"],
                 "attrs": {"sorted": )") +
                      (sorted ? "1" : "0") + "}}]}");
    const auto executor = make_executor(m.compiled());
    std::mt19937 rng(5);
    for (const int64_t rows : {7, 1, 0, 30}) {
      Tensor x(DType::f32, {rows, 5});
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::uniform_int_distribution<int>(-3, 9)(rng) * 0.5);
      check_equal(executor->run({{"x", x}}), with_known(m, {{"x", x}}, {"x"}));
    }
  }
}

TEST_CASE("as many of the largest as a run finds") {
  const OpenModel m(R"({
    "name": "largest", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [50]}, {"name": "m", "dtype": "bool", "shape": [50]}],
    "outputs": ["v", "i"],
    "nodes": [
      {"op": "Compress", "inputs": ["x", "m"], "outputs": ["c"], "attrs": {"axis": 0}},
      {"op": "Shape", "inputs": ["c"], "outputs": ["n"]},
      {"op": "Min", "inputs": ["n", "ten"], "outputs": ["k"]},
      {"op": "TopK", "inputs": ["c", "k"], "outputs": ["v", "i"], "attrs": {"largest": 0}}
    ],
    "weights": {"ten": {"dtype": "i64", "shape": [1], "data": [10]}}
  })");
  const auto executor = make_executor(m.compiled());
  std::mt19937 rng(4);
  for (const double share : {0.5, 0.1, 0.0, 1.0}) {
    Tensor x = Tensor::random(DType::f32, {50}, 5);
    for (int64_t i = 0; i < 50; i += 3) x.set(i, 0.25);  // equal ones stay in order
    x.set(7, NAN);
    const NamedTensors inputs = {{"x", x}, {"m", mask_of(drawn(rng, 50, share))}};
    check_equal(executor->run(inputs), with_known(m, inputs, {"m"}));
  }
}

TEST_CASE("two sizes that values decide must be one where the model adds what has them") {
  const OpenModel m(R"({
    "name": "sum", "opset": 17,
    "inputs": [{"name": "a", "dtype": "bool", "shape": [9]}, {"name": "b", "dtype": "bool", "shape": [9]}],
    "outputs": ["y"],
    "nodes": [
      {"op": "NonZero", "inputs": ["a"], "outputs": ["p"]},
      {"op": "NonZero", "inputs": ["b"], "outputs": ["q"]},
      {"op": "Add", "inputs": ["p", "q"], "outputs": ["y"]}
    ]
  })");
  const CompiledModel model = m.compiled();
  const std::unique_ptr<Runnable> executor = make_executor(model), artifact = artifact_of(m, model);
  const NamedTensors same = {{"a", mask_of({1, 0, 1, 0, 0, 0, 0, 0, 0})},
                             {"b", mask_of({0, 0, 0, 0, 0, 0, 0, 1, 1})}},
                     other = {{"a", mask_of({1, 0, 1, 0, 0, 0, 0, 0, 0})},
                              {"b", mask_of({0, 1, 1, 0, 0, 0, 0, 1, 1})}};
  for (Runnable* r : {executor.get(), artifact.get()}) {
    const Tensor y = r->run(same).at("y");
    CHECK(y.shape() == std::vector<int64_t>{1, 2});
    CHECK(y.get_int(1) == 10);
    CHECK_THROWS_WITH(r->run(other), ContainsSubstring("must hold"));
    CHECK(r->run(same).at("y").get_int(0) == 7);
  }
}

TEST_CASE("sizes are found in branches and in each iteration of a loop") {
  const OpenModel branch(R"({
    "name": "branch", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [12]}, {"name": "c", "dtype": "bool", "shape": []}],
    "outputs": ["y"],
    "nodes": [{"op": "If", "inputs": ["c"], "outputs": ["y"], "attrs": {
      "then_branch": {"inputs": [], "outputs": ["s"], "nodes": [
        {"op": "Greater", "inputs": ["x", "zero"], "outputs": ["m"]},
        {"op": "Compress", "inputs": ["x", "m"], "outputs": ["p"], "attrs": {"axis": 0}},
        {"op": "Exp", "inputs": ["p"], "outputs": ["e"]},
        {"op": "ReduceSum", "inputs": ["e"], "outputs": ["s"], "attrs": {"keepdims": 0}}]},
      "else_branch": {"inputs": [], "outputs": ["t"], "nodes": [
        {"op": "ReduceMax", "inputs": ["x"], "outputs": ["t"], "attrs": {"keepdims": 0}}]}}}],
    "weights": {"zero": {"dtype": "f32", "shape": [], "data": [0]}}
  })");
  const CompiledModel of_branch = branch.compiled();
  const std::unique_ptr<Runnable> b = make_executor(of_branch), in_artifact = artifact_of(branch, of_branch);
  const Tensor x = Tensor::random(DType::f32, {12}, 6);
  double sum = 0, most = -INFINITY;
  for (int64_t i = 0; i < 12; ++i) {
    sum += x.get(i) > 0 ? std::exp(x.get(i)) : 0;
    most = std::max(most, x.get(i));
  }
  for (Runnable* r : {b.get(), in_artifact.get()})
    for (const bool taken : {true, false, true}) {
      Tensor c(DType::boolean, {});
      c.set_int(0, taken);
      CHECK(r->run({{"x", x}, {"c", c}}).at("y").get(0) == Approx(taken ? sum : most));
    }

  // Sums of the row's positive elements, row by row.
  const OpenModel loop(R"({
    "name": "loop", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 9]}, {"name": "n", "dtype": "i64", "shape": []}],
    "outputs": ["y"],
    "nodes": [{"op": "Loop", "inputs": ["n", "", "start"], "outputs": ["y"], "attrs": {"body": {
      "inputs": [{"name": "i", "dtype": "i64", "shape": []}, {"name": "c", "dtype": "bool", "shape": []},
                 {"name": "s", "dtype": "f32", "shape": []}],
      "outputs": ["d", "t"], "nodes": [
        {"op": "Identity", "inputs": ["c"], "outputs": ["d"]},
        {"op": "Gather", "inputs": ["x", "i"], "outputs": ["row"]},
        {"op": "Greater", "inputs": ["row", "zero"], "outputs": ["m"]},
        {"op": "Compress", "inputs": ["row", "m"], "outputs": ["p"], "attrs": {"axis": 0}},
        {"op": "ReduceSum", "inputs": ["p"], "outputs": ["of_row"], "attrs": {"keepdims": 0}},
        {"op": "Add", "inputs": ["s", "of_row"], "outputs": ["t"]}]}}}],
    "weights": {"zero": {"dtype": "f32", "shape": [], "data": [0]}, "start": {"dtype": "f32", "shape": [], "data": [0]}}
  })");
  const CompiledModel of_loop = loop.compiled();
  const std::unique_ptr<Runnable> l = make_executor(of_loop), loop_artifact = artifact_of(loop, of_loop);
  const Tensor rows = Tensor::random(DType::f32, {6, 9}, 7);
  for (Runnable* r : {l.get(), loop_artifact.get()})
    for (const int64_t n : {6, 0, 3}) {
      Tensor count(DType::i64, {});
      count.set_int(0, n);
      double want = 0;
      for (int64_t i = 0; i < 9 * n; ++i) want += std::max(rows.get(i), 0.0);
      CHECK(r->run({{"x", rows}, {"n", count}}).at("y").get(0) == Approx(want));
    }
}

TEST_CASE("kernels for chosen sizes find the same sizes that values decide") {
  const char* const kChosen = R"({
    "name": "chosen", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 4]}], "outputs": ["y"],
    "nodes": [
      {"op": "Relu", "inputs": ["x"], "outputs": ["r"]},
      {"op": "NonZero", "inputs": ["r"], "outputs": ["p"]},
      {"op": "Transpose", "inputs": ["p"], "outputs": ["q"]},
      {"op": "GatherND", "inputs": ["x", "q"], "outputs": ["y"]}
    ]
  })";
  const OpenModel m(kChosen);
  const SpecializedModel special = compile_model(m.path, m.options, {{"n", {5}}});
  const auto executor = make_executor(special.model);
  for (const int64_t n : {5, 3, 5, 0, 8}) {
    const Tensor x = Tensor::random(DType::f32, {n, 4}, static_cast<uint64_t>(n));
    std::vector<double> want;
    for (int64_t i = 0; i < x.size(); ++i)
      if (x.get(i) > 0) want.push_back(x.get(i));
    const Tensor y = executor->run({{"x", x}}).at("y");
    REQUIRE(y.shape() == std::vector<int64_t>{static_cast<int64_t>(want.size())});
    for (size_t i = 0; i < want.size(); ++i) CHECK(y.get(static_cast<int64_t>(i)) == want[i]);
  }
  CHECK_THROWS_WITH(compile_model(m.path, m.options, {{"p.count", {5}}}),
                    ContainsSubstring("the model leaves no such size open"));
}

TEST_CASE("a program in C asks an artifact what the last run made") {
  const OpenModel m(with_ramp(kRows, 48, 0.1));
  artifact_of(m, m.compiled());
  m.folder.write("main.c", R"(
#include <stdio.h>
#include "m.h"
int main(void) {
  static float x[40 * 8], y[40 * 6], ones[40];
  static uint8_t mask[40];
  static int64_t count;
  struct m* model = m_create(NULL);
  const struct m_input_shapes shapes = {{40, 8}, {40}};
  struct m_output_shapes most, made;
  if (m_fit(model, &shapes, &most)) return 1;
  mask[3] = mask[17] = 1;
  const struct m_inputs in = {x, mask};
  const struct m_outputs out = {y, &count, ones};
  if (m_run(model, &in, &out)) return 2;
  m_made(model, &made);
  printf("%d %d %d %d\n", (int)most.y[0], (int)made.y[0], (int)made.ones[0], (int)count);
  m_destroy(model);
  return 0;
}
)");
  const std::string folder = m.folder / "";
  CHECK(output_of("cc -std=c11 -Wall -Werror -I" + folder + " " + folder + "main.c " + folder +
                  "m.so -Wl,-rpath," + folder + " -o " + folder + "main && " + folder + "main") ==
        "40 2 2 2\n");
}

TEST_CASE("a target without control flow says that values decide a size") {
  OpenModel m(with_ramp(kRows, 48, 0.1));
  m.options.build.control_flow = false;
  CHECK_THROWS_WITH(m.compiled(),
                    ContainsSubstring("sizes that values decide aren't supported on this target"));
  OpenModel many(R"({
    "name": "many", "opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [5000]}], "outputs": ["y"],
    "nodes": [{"op": "TopK", "inputs": ["x", "k"], "outputs": ["y", "i"]}],
    "weights": {"k": {"dtype": "i64", "shape": [1], "data": [4097]}}
  })");
  many.options.build.control_flow = false;
  CHECK_THROWS_WITH(many.compiled(), ContainsSubstring("a known number up to 4096 on this target"));
}
