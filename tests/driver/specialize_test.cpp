// One compiled model with kernels for chosen sizes beside those for all.
#include "nestor/specialize.h"

#include <algorithm>

#include "catch.h"
#include "nestor/artifact.h"
#include "runtime/fitted_sizes.h"
#include "tests/driver/open_model.h"
#include "tests/own_file.h"

using namespace nestor;

namespace {

// Two sizes; an operator that reads both, one for one of them, and a weight that both variants pack.
const char* const kScores = R"({
  "name": "scores", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 32]}],
  "outputs": ["y"],
  "nodes": [
    {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["q"]},
    {"op": "Transpose", "inputs": ["x"], "outputs": ["k"], "attrs": {"perm": [0, 2, 1]}},
    {"op": "MatMul", "inputs": ["q", "k"], "outputs": ["s"]},
    {"op": "Softmax", "inputs": ["s"], "outputs": ["p"]},
    {"op": "MatMul", "inputs": ["p", "x"], "outputs": ["m"]},
    {"op": "ReduceMean", "inputs": ["m"], "outputs": ["y"], "attrs": {"axes": [1], "keepdims": 0}}
  ],
  "weights": {"w": {"dtype": "f32", "shape": [32, 32], "data": "ramp"}}
})";

struct Compiled : testing::OpenModel {
  explicit Compiled(const char* text) : OpenModel(testing::with_ramp(text, 32 * 32, 0.05)) {}
  SpecializedModel special(const ChosenSizes& sizes) const { return compile_model(path, options, sizes); }
};

NamedTensors texts(int64_t batch, int64_t seq) {
  return {{"x", Tensor::random(DType::f32, {batch, seq, 32}, 3)}};
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::equal(a.as<float>().begin(), a.as<float>().end(), b.as<float>().begin());
}

void check_close(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  const Comparison c = compare(got, want, Tolerance{});
  INFO(describe(c, "y", want));
  CHECK(c.ok());
}

// Of the kernels that a run on these inputs calls, how many have the text in their names.
std::pair<int, int> called(Executor& executor, const NamedTensors& inputs, const std::string& text) {
  executor.set_timing(true);
  executor.run(inputs);
  std::pair<int, int> out;
  for (size_t i = 0; i < executor.plan().calls.size(); ++i) {
    const PlanCall& call = executor.plan().calls[i];
    if (call.kernel < 0 || executor.call_runs()[i] == 0) continue;
    ++out.second;
    out.first += function_of(executor.plan(), call).find(text) != std::string::npos;
  }
  executor.set_timing(false);
  return out;
}

}  // namespace

TEST_CASE("a run of chosen sizes is that of a model compiled for them, one of others is right") {
  for (const int threads : {1, 2}) {
    Compiled c(kScores);
    c.options.threads = threads;
    const SpecializedModel s = c.special({{"batch", {1, 4}}, {"seq", {16, 33}}});
    CHECK(s.sizes.size() == 4);
    auto executor = make_executor(s.model);
    for (const auto& [batch, seq] : {std::pair{1, 16}, {4, 33}, {2, 16}, {1, 17}, {4, 16}, {1, 1}, {1, 33}}) {
      INFO(batch << " texts of " << seq << ", " << threads << " threads");
      const NamedTensors x = texts(batch, seq);
      const Tensor want = make_executor(c.known(x))->run(x).at("y"), got = executor->run(x).at("y");
      const bool chosen = batch != 2 && (seq == 16 || seq == 33);
      if (chosen)
        CHECK(same(got, want));
      else
        check_close(got, want);
      const std::string name = "_batch" + std::to_string(batch) + "_seq" + std::to_string(seq);
      const auto [special, all] = called(*executor, x, name);
      CHECK(all > 0);
      CHECK((special > 0) == chosen);
    }
  }
}

TEST_CASE("where some sizes are chosen and others stay open, the kernels know those that are chosen") {
  const Compiled c(kScores);
  const SpecializedModel s = c.special({{"seq", {16}}});
  auto executor = make_executor(s.model);
  for (const auto& [batch, seq] : {std::pair{3, 16}, {1, 16}, {3, 15}}) {
    INFO(batch << " texts of " << seq);
    const NamedTensors x = texts(batch, seq);
    check_close(executor->run(x).at("y"), make_executor(c.known(x))->run(x).at("y"));
    CHECK((called(*executor, x, "_seq16").first > 0) == (seq == 16));
  }
}

TEST_CASE("kernels for chosen sizes take no memory from runs of others, and constants are stored once") {
  const Compiled c(kScores);
  const CompiledModel open = compile_model(c.path, c.options);
  const SpecializedModel s = c.special({{"batch", {8, 64}}, {"seq", {128}}});
  const auto memory = [](const CompiledModel& m, const std::vector<int64_t>& dims) {
    const auto code = JitModule::compile(m.lowered(), m.target);
    FittedSizes sizes(m.plan->sizes, code->lookup(m.plan->sizes.kernel));
    sizes.fit(dims);
    return std::pair(sizes.arena_bytes(), sizes.workspace_bytes());
  };
  CHECK(memory(s.model, {2, 5, 32}) == memory(open, {2, 5, 32}));
  const CompiledModel fixed = c.known(texts(8, 128));
  CHECK(memory(s.model, {8, 128, 32}) ==
        std::pair(fixed.plan->arena_bytes, align_up(fixed.plan->workspace_bytes)));
  CHECK(s.model.plan->weights.bytes() == open.plan->weights.bytes() + s.weight_bytes);
  CHECK(c.special({{"batch", {8}}, {"seq", {128}}}).weight_bytes <= s.weight_bytes);
  CHECK(s.weight_bytes <= 2 * 32 * 32 * 4);
}

TEST_CASE("more sizes need few transformed weights more") {
  // F(3x3) is the fastest for one image, F(4x4) for eight, by little.
  const char* const layer = R"({
    "name": "layer", "opset": 17, "outputs": ["y"],
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 192, 14, 14]}],
    "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1]}},
              {"op": "Relu", "inputs": ["c"], "outputs": ["y"]}],
    "weights": {"w": {"dtype": "f32", "shape": [192, 192, 3, 3], "data": "ramp"}}
  })";
  const testing::OpenModel m(testing::with_ramp(layer, 192 * 192 * 9, 0.001));
  const CompiledModel open = compile_model(m.path, m.options);
  const SpecializedModel s = compile_model(m.path, m.options, {{"batch", {1, 8}}});
  CHECK(s.model.plan->weights.bytes() <= 1.3 * static_cast<double>(open.plan->weights.bytes()));
  auto executor = make_executor(s.model);
  for (const int64_t batch : {1, 2, 8}) {
    const NamedTensors x = {{"x", Tensor::random(DType::f32, {batch, 192, 14, 14}, 3)}};
    testing::check_equal(executor->run(x), m.fixed(x), Tolerance{1e-3, 1e-3});
  }
}

TEST_CASE("an artifact chooses by its sizes, too") {
  const Compiled c(kScores);
  const SpecializedModel s = c.special({{"batch", {2}}, {"seq", {16}}});
  ArtifactOptions artifact;
  artifact.path = c.folder / "m.so";
  write_artifact(*s.model.plan, s.model.lowered(), s.model.target, artifact);
  auto loaded = load_artifact(artifact.path);
  auto executor = make_executor(s.model);
  for (const auto& [batch, seq] : {std::pair{2, 16}, {3, 16}, {2, 16}, {2, 17}, {1, 1}}) {
    INFO(batch << " texts of " << seq);
    const NamedTensors x = texts(batch, seq);
    CHECK(same(loaded->run(x).at("y"), executor->run(x).at("y")));
  }
}

TEST_CASE("combinations that no run can have get no kernels") {
  const Compiled c(testing::kTwoInputs);
  const SpecializedModel s = c.special({{"n", {3, 4}}, {"m", {3}}});
  CHECK(s.sizes == std::vector<std::map<std::string, int64_t>>{{{"m", 3}, {"n", 3}}});
  auto executor = make_executor(s.model);
  for (const int64_t n : {3, 4, 1}) {
    const NamedTensors x = {{"a", Tensor::random(DType::f32, {n, 4}, 1)},
                            {"b", Tensor::random(DType::f32, {n, 4}, 2)}};
    check_close(executor->run(x).at("y"), make_executor(c.known(x))->run(x).at("y"));
  }
  CHECK_THROWS_WITH(executor->fit({{3, 4}, {4, 4}}), Catch::Matchers::ContainsSubstring("must hold"));
  // One of two sizes that must be equal.
  auto half = make_executor(c.special({{"n", {3}}}).model);
  const NamedTensors x = {{"a", Tensor::random(DType::f32, {3, 4}, 1)},
                          {"b", Tensor::random(DType::f32, {3, 4}, 2)}};
  check_close(half->run(x).at("y"), make_executor(c.known(x))->run(x).at("y"));
  CHECK_THROWS_WITH(half->fit({{3, 4}, {4, 4}}), Catch::Matchers::ContainsSubstring("must hold"));
}

TEST_CASE("a size of 1 is broadcast if kernels are chosen for it, though open sizes must be equal") {
  const Compiled c(testing::kTwoInputs);
  for (const char* one : {"n", "m"}) {
    const SpecializedModel s = c.special({{one, {1}}});
    ArtifactOptions artifact;
    artifact.path = c.folder / "m.so";
    write_artifact(*s.model.plan, s.model.lowered(), s.model.target, artifact);
    auto loaded = load_artifact(artifact.path);
    auto executor = make_executor(s.model);
    for (const auto& [rows, other] : {std::pair<int64_t, int64_t>{3, 1}, {3, 3}, {1, 1}, {0, 1}, {5, 1}}) {
      const bool first = std::string(one) == "n";
      INFO(one << " is 1: " << other << " beside " << rows);
      const NamedTensors x = {{"a", Tensor::random(DType::f32, {first ? other : rows, 4}, 1)},
                              {"b", Tensor::random(DType::f32, {first ? rows : other, 4}, 2)}};
      const Tensor want = make_executor(c.known(x))->run(x).at("y");
      for (Runnable* r : {static_cast<Runnable*>(executor.get()), static_cast<Runnable*>(loaded.get())}) {
        const Tensor got = r->run(x).at("y");
        REQUIRE(got.shape() == std::vector<int64_t>{rows, 4});
        check_close(got, want);
      }
    }
    CHECK_THROWS_WITH(executor->fit({{3, 4}, {4, 4}}),
                      Catch::Matchers::ContainsSubstring("--specialize n=1 or --specialize m=1"));
  }
}

TEST_CASE("functions for chosen sizes have names, by which schedules are theirs") {
  Compiled c(kScores);
  const auto name_of = [&](const SpecializedModel& s) {
    for (const CompiledFunction& f : s.model.funcs)
      if (f.lowered.name.find("_batch2_seq16") != std::string::npos) return f.lowered.name;
    return std::string();
  };
  const ChosenSizes sizes = {{"batch", {2}}, {"seq", {16}}};
  const std::string name = name_of(c.special(sizes));
  REQUIRE(!name.empty());
  const auto by_file = [&](const std::string& func) {
    c.options.schedules = first_of(
        {file_schedules(c.folder.write("s.sched", "schedule " + func + " {\n}\n")), default_schedules()});
    const SpecializedModel s = c.special(sizes);
    std::vector<std::string> out;
    for (const CompiledFunction& f : s.model.funcs)
      if (f.choice.origin.ends_with("s.sched")) out.push_back(f.lowered.name);
    return out;
  };
  CHECK(by_file(name) == std::vector<std::string>{name});
  const std::string open = name.substr(0, name.find("_batch2"));
  CHECK(by_file(open) == std::vector<std::string>{open});
  CHECK_THROWS_WITH(by_file("other_batch2_seq16"),
                    Catch::Matchers::ContainsSubstring("isn't a function of the model"));
}

TEST_CASE("what can't be a size, or would be too many, is refused") {
  Compiled c(kScores);
  c.options.build.open["batch"] = {2, 8, 0};
  const auto refused = [&](const ChosenSizes& sizes, const std::string& why) {
    CHECK_THROWS_WITH(c.special(sizes), Catch::Matchers::ContainsSubstring(why));
  };
  refused({{"batch", {4, 9}}}, "--specialize batch=9: batch is from 2 to 8");
  refused({{"batch", {1}}}, "--specialize batch=1: batch is from 2 to 8");
  refused({{"other", {1}}}, "no input has a dimension other");
  std::vector<int64_t> many;
  for (int64_t i = 1; i <= 65; ++i) many.push_back(i);
  refused({{"seq", many}}, "64 at most");
  c.options.build.dims["seq"] = 4;
  refused({{"seq", {4}}}, "--dim gives that size a value");
  const auto read = [](const std::string& text) {
    ChosenSizes out;
    add_chosen_sizes("--specialize", text, out);
    return out;
  };
  CHECK(read("batch=1,8,1") == ChosenSizes{{"batch", {1, 8}}});
  for (const char* text :
       {"batch", "=1", "batch=", "batch=1,", "batch=x", "batch=1;2", "batch=99999999999999999999"})
    CHECK_THROWS_WITH(read(text), Catch::Matchers::ContainsSubstring("isn't a size with its values"));
}
