// Whole models: what runs in process agrees with the interpreter, node by node, and with the world outside.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/npz.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

// The model's outputs by interpreting its unscheduled functions in order.
NamedTensors interpreted(const CompiledModel& m, const NamedTensors& inputs) {
  std::map<ValueId, Tensor> values;
  const auto& g = m.graph;
  for (ValueId v : g.inputs) values[v] = inputs.at(g.values[static_cast<size_t>(v)].name);
  const auto get = [&](ValueId v) {
    const auto alias = m.partition.alias.find(v);
    const ValueId root = alias == m.partition.alias.end() ? v : alias->second;
    const Tensor& constant = g.values[static_cast<size_t>(root)].constant;
    return constant.defined() ? constant : values.at(root);
  };
  for (const KernelCall& call : m.partition.calls) {
    const PrimFunc& f = m.funcs[static_cast<size_t>(call.func)].func;
    std::vector<Tensor> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const ValueId v = call.args[i];
      const BufferDecl& decl = f.params[i].decl;
      if (f.params[i].role == Role::out) values[v] = Tensor(decl.buffer->type.dtype, logical_shape(decl));
      // Partition may have merged dimensions: the same bytes in the shape that the function sees.
      args.push_back(f.params[i].role == Role::constant ? constant_argument(get(v), decl)
                                                        : get(v).reshaped(logical_shape(decl)));
    }
    interpret(f, args);
  }
  NamedTensors out;
  for (ValueId v : g.outputs)
    out[g.values[static_cast<size_t>(v)].name] = get(v).reshaped(g.values[static_cast<size_t>(v)].type.shape);
  return out;
}

NamedTensors random_inputs(const CompiledModel& m, uint64_t seed = 1) {
  NamedTensors in;
  for (const PlanTensor& t : m.plan->inputs) in[t.name] = Tensor::random(t.dtype, t.shape, seed++);
  return in;
}

void check_against_interpreter(const std::string& spec, const CompileOptions& options) {
  const CompiledModel m = compile_model(spec, options);
  const NamedTensors in = random_inputs(m), got = make_executor(m)->run(in), want = interpreted(m, in);
  REQUIRE(got.size() == want.size());
  for (const auto& [name, tensor] : want) {
    const Comparison c = compare(got.at(name), tensor, {1e-5, 1e-6});
    INFO(spec << ": " << describe(c, name, tensor));
    CHECK(c.ok());
  }
}

const char* kNet = R"({
  "name": "net", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3, 8, 8]}],
  "outputs": ["y", "flat", "same"],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "W", "B"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "MaxPool", "inputs": ["r"], "outputs": ["p"], "attrs": {"kernel_shape": [2, 2], "strides": [2, 2]}},
    {"op": "Add", "inputs": ["p", "p"], "outputs": ["a"]},
    {"op": "Flatten", "inputs": ["a"], "outputs": ["flat"]},
    {"op": "MatMul", "inputs": ["flat", "M"], "outputs": ["m"]},
    {"op": "Softmax", "inputs": ["m"], "outputs": ["y"]},
    {"op": "Identity", "inputs": ["x"], "outputs": ["same"]}
  ],
  "weights": {"W": {"npz": "w.npz", "key": "W"}, "B": {"npz": "w.npz", "key": "B"}, "M": {"npz": "w.npz", "key": "M"}}
})";

std::string write_net(const Folder& folder) {
  write_npz(folder / "w.npz", {{"W", Tensor::random(DType::f32, {4, 3, 3, 3}, 1)},
                               {"B", Tensor::random(DType::f32, {4}, 2)},
                               {"M", Tensor::random(DType::f32, {64, 5}, 3)}});
  return folder.write("net.json", kNet);
}

// How many held-out digits a model gets right, one image at a time.
int digits_right(Runnable& model, int count) {
  const auto data = read_npz(std::string(NESTOR_SOURCE_DIR) + "/examples/digits/heldout.npz");
  const Tensor &images = data.at("image"), &labels = data.at("label");
  int right = 0;
  for (int i = 0; i < count; ++i) {
    Tensor image(DType::f32, {1, 1, 8, 8});
    for (int k = 0; k < 64; ++k) image.set(k, images.get(64 * i + k));
    const Tensor p = model.run({{"image", image}}).at("probability");
    int best = 0;
    for (int d = 1; d < 10; ++d) best = p.get(d) > p.get(best) ? d : best;
    right += best == labels.get_int(i);
  }
  return right;
}

CompiledModel digits(CompileOptions options) {
  options.build.dims["batch"] = 1;
  return compile_model(std::string(NESTOR_SOURCE_DIR) + "/examples/digits/digits.json", options);
}

}  // namespace

TEST_CASE("a network runs as its loop nests say, fused and naive, on one thread and two") {
  const Folder folder;
  const std::string path = write_net(folder);
  CompileOptions fused;
  check_against_interpreter(path, fused);
  fused.threads = 2;
  check_against_interpreter(path, fused);
  check_against_interpreter(path, CompileOptions::naive());
}

TEST_CASE("channels that fill no whole blocks: a network in blocks says what it says row major") {
  const Folder folder;
  const auto weight = [&](std::vector<int64_t> shape, uint64_t seed) {
    return Tensor::random(DType::f32, std::move(shape), seed);
  };
  write_npz(folder / "w.npz", {{"a", weight({25, 3, 3, 3}, 1)},
                               {"b", weight({25}, 2)},
                               {"d", weight({25, 1, 3, 3}, 3)},
                               {"e", weight({45, 25, 1, 1}, 4)},
                               {"f", weight({5, 45, 1, 1}, 5)}});
  std::string weights;
  for (const char* name : {"a", "b", "d", "e", "f"})
    weights += std::string(weights.empty() ? "" : ", ") + "\"" + name + R"(": {"npz": "w.npz", "key": ")" +
               name + "\"}";
  const std::string path = folder.write("odd.json", R"({"name": "odd", "opset": 17,
  "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 3, 9, 9]}], "outputs": ["y"],
  "nodes": [
    {"op": "Conv", "inputs": ["x", "a", "b"], "outputs": ["c"], "attrs": {"pads": [1, 1, 1, 1]}},
    {"op": "Sigmoid", "inputs": ["c"], "outputs": ["s"]},
    {"op": "Conv", "inputs": ["s", "d"], "outputs": ["t"], "attrs": {"group": 25, "strides": [2, 2]}},
    {"op": "Conv", "inputs": ["t", "e"], "outputs": ["u"]},
    {"op": "MaxPool", "inputs": ["u"], "outputs": ["p"], "attrs": {"kernel_shape": [2, 2]}},
    {"op": "Conv", "inputs": ["p", "f"], "outputs": ["y"]}],
  "weights": {)" + weights + "}}");
  CompileOptions blocked;
  blocked.schedules = default_schedules();
  const CompiledModel m = compile_model(path, blocked), naive = compile_model(path, CompileOptions::naive());
  if (m.partition.channel_block == 16) CHECK(m.partition.blocked.size() == 4);
  const NamedTensors in = random_inputs(m);
  const Tensor got = make_executor(m)->run(in).at("y"), want = make_executor(naive)->run(in).at("y");
  const Comparison c = compare(got, want, {1e-5, 1e-6});
  INFO(describe(c, "y", want));
  CHECK(c.ok());
}

TEST_CASE("operators written out run as their loop nests say") {
  for (const char* spec : {"Conv(f32[1,4,9,9], const f32[8,4,3,3]; pads=[1,1,1,1])",
                           "MatMul(f32[3,17], const f32[17,5])", "Softmax(f32[4,33]; axis=-1)",
                           "Reshape(f32[2,6], i64[2]{3,4})", "Relu(f32[0,3])", "Sigmoid(f32[100])"})
    check_against_interpreter(spec, CompileOptions::naive());
}

TEST_CASE("a model for an older instruction set of this architecture runs in this process") {
  const Target target = parse_target("x86-64-v3");
  try {
    require_runs_here(target);
  } catch (const UserError&) {
    WARN("SKIPPED: this machine can't run code for x86-64-v3");
    return;
  }
  CompileOptions options;
  options.target = target;
  options.schedules = default_schedules();
  check_against_interpreter("MatMul(f32[7,33], const f32[33,20])", options);
}

TEST_CASE("loop nests in a .nest file are a model") {
  const Folder folder;
  const std::string path =
      folder.write("f.nest", R"(func scale[N](in X: f32[N,3], const W: f32[3], out Y: f32[N,3]) {
  for i in N, j in 3 {
    block Y(vi: S N = i, vj: S 3 = j) {
      Y[vi,vj] = X[vi,vj] * W[vj]
    }
  }
})");
  CompileOptions options;
  options.build.dims["N"] = 7;
  check_against_interpreter(path, options);
  CHECK(compile_model(path, options).plan->inputs.at(0).shape == std::vector<int64_t>{7, 3});
  CHECK_THROWS_WITH(compile_model(path), Catch::Matchers::ContainsSubstring("symbolic dimension N"));
}

TEST_CASE("a schedule file's choice is kept with its origin, and an illegal one names function and origin") {
  const Folder folder;
  const std::string good =
      folder.write("good.sched", "i0 i1 = split Y.i [_, 8]\nparallel Y.i0\nvectorize Y.i1\n");
  const std::string bad = folder.write("bad.sched", "vectorize Y.nothing\n");
  CompileOptions options;
  options.schedules = file_schedules(good);
  const std::string path = folder.write("f.nest", R"(func twice(in X: f32[100], out Y: f32[100]) {
  for i in 100 {
    block Y(vi: S 100 = i) {
      Y[vi] = X[vi] + X[vi]
    }
  }
})");
  const CompiledModel m = compile_model(path, options);
  CHECK(m.funcs.at(0).choice.origin == good);
  CHECK(m.funcs.at(0).choice.trace.steps.size() == 3);
  options.threads = 2;
  check_against_interpreter(path, options);
  options.schedules = file_schedules(bad);
  CHECK_THROWS_WITH(compile_model(path, options),
                    Catch::Matchers::ContainsSubstring("while scheduling function twice") &&
                        Catch::Matchers::ContainsSubstring("bad.sched"));
}

TEST_CASE("each function's result lies within its rounding allowance") {
  const Folder folder;
  const CompiledModel m = compile_model(write_net(folder));
  for (const CompiledFunction& f : m.funcs) {
    std::vector<Tensor> inputs;
    const std::vector<Tensor> args = random_args(f.func, 5);
    for (size_t i = 0; i < args.size(); ++i)
      if (f.func.params[i].role != Role::out) inputs.push_back(args[i]);
    const Oracle oracle = make_oracle(f.func, inputs, m.target);
    INFO(f.func.name << " " << oracle.unbounded);
    CHECK(oracle.unbounded.empty());
    std::vector<Tensor> got = run_function(f, inputs, m.target);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(compare(got[i], oracle, i).ok());
      got[i].set(0, got[i].get(0) + 0.01);
      CHECK_FALSE(compare(got[i], oracle, i).ok());
    }
  }
}

TEST_CASE("the digits network reads digits") {
  const CompiledModel m = digits({});
  auto executor = make_executor(m);
  CHECK(digits_right(*executor, 500) >= 485);
}
