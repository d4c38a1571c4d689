#include <cstring>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/parse.h"

using namespace nestor;

namespace {

// Already flat loops, so that they are their own lowered form.
CompiledFunction function(const std::string& text) {
  const PrimFunc f = parse_func(text);
  return {f, {}, f, f};
}
const char* kAddConst = R"(func add(in X: f32[8], const W: f32[8], out Y: f32[8]) {
  for i in 8 {
    Y[i] = X[i] + W[i]
  }
})";
const char* kTwice = R"(func twice(in X: f32[8], out Y: f32[8]) {
  for i in 8 {
    Y[i] = X[i] + X[i]
  }
})";

struct Net {
  Graph graph;
  Partition partition;
  std::vector<CompiledFunction> funcs = {function(kAddConst), function(kTwice)};

  ValueId value(const std::string& name, std::vector<int64_t> shape = {8}) {
    graph.values.push_back({name, {DType::f32, std::move(shape)}, {}, -1});
    return static_cast<ValueId>(graph.values.size()) - 1;
  }
  ValueId constant(const std::string& name) {
    const ValueId v = value(name);
    graph.values.back().constant = Tensor(DType::f32, {8});
    for (int i = 0; i < 8; ++i) graph.values.back().constant.set(i, i);
    return v;
  }
  void call(int func, std::vector<ValueId> args) { partition.calls.push_back({func, std::move(args), {}}); }
  std::shared_ptr<const Plan> plan() { return build_plan(graph, partition, funcs, 1); }
  NamedTensors run(const NamedTensors& inputs) {
    auto p = plan();
    auto code = JitModule::compile({funcs[0].lowered, funcs[1].lowered}, host_target());
    return Executor(p, {code->lookup("add"), code->lookup("twice")}, code).run(inputs);
  }
};

Tensor ones() {
  Tensor t(DType::f32, {8});
  for (int i = 0; i < 8; ++i) t.set(i, 1);
  return t;
}

}  // namespace

TEST_CASE("a chain reuses the arena and writes its output where the caller wants it") {
  Net net;
  const ValueId x = net.value("x"), w = net.constant("w");
  net.graph.inputs = {x};
  ValueId v = x;
  for (int i = 0; i < 5; ++i) {
    const ValueId next = net.value("v" + std::to_string(i));
    if (i % 2)
      net.call(0, {v, w, next});
    else
      net.call(1, {v, next});
    v = next;
  }
  net.graph.outputs = {v};
  const auto plan = net.plan();
  CHECK(plan->calls.size() == 5);
  CHECK(plan->arena_bytes == 2 * 64);
  CHECK(plan->weights.bytes() == 64);  // packed once for both calls
  CHECK(plan->calls.back().args.back() == Place{Region::output, 0});
  const NamedTensors out = net.run({{"x", ones()}});
  for (int i = 0; i < 8; ++i) CHECK(out.at("v4").get(i) == ((2 + i) * 2 + i) * 2);
}

TEST_CASE("outputs that are views, inputs, constants or other outputs are copied") {
  Net net;
  const ValueId x = net.value("x"), w = net.constant("w"), y = net.value("y"), z = net.value("z"),
                view = net.value("view", {2, 4}), of_input = net.value("of_input", {4, 2});
  net.graph.inputs = {x};
  net.call(1, {x, y});
  net.call(1, {view, z});
  net.partition.alias = {{view, y}, {of_input, x}};
  net.graph.outputs = {view, y, of_input, w, x, z};
  const auto plan = net.plan();
  CHECK(plan->arena_bytes == 0);
  CHECK(plan->calls[0].args[1] == Place{Region::output, 0});
  CHECK(plan->calls[1].args[0] == Place{Region::output, 0});
  CHECK(plan->calls.size() == 6);
  const NamedTensors out = net.run({{"x", ones()}});
  CHECK(out.at("view").shape() == std::vector<int64_t>{2, 4});
  for (int i = 0; i < 8; ++i) {
    CHECK(out.at("view").get(i) == 2);
    CHECK(out.at("y").get(i) == 2);
    CHECK(out.at("of_input").get(i) == 1);
    CHECK(out.at("w").get(i) == i);
    CHECK(out.at("x").get(i) == 1);
    CHECK(out.at("z").get(i) == 4);
  }
}

TEST_CASE("a view keeps the value it looks at alive") {
  Net net;
  const ValueId x = net.value("x"), a = net.value("a"), b = net.value("b"), c = net.value("c"),
                d = net.value("d"), view = net.value("view", {8, 1});
  net.graph.inputs = {x};
  net.call(1, {x, a});
  net.call(1, {x, b});
  net.call(1, {b, c});
  net.call(1, {view, d});  // a, long after its last direct use
  net.partition.alias = {{view, a}};
  net.graph.outputs = {c, d};
  const auto plan = net.plan();
  CHECK_FALSE(plan->calls[0].args[1] == plan->calls[1].args[1]);
  const NamedTensors out = net.run({{"x", ones()}});
  CHECK(out.at("d").get(3) == 4);
}

TEST_CASE("weights are packed as each reader's layout wants them") {
  Net net;
  CompiledFunction blocked = net.funcs[0];
  const Var i = make_var("i");
  blocked.scheduled.params[1].decl.layout = IndexMap{{i}, {Expr(i) % 4, Expr(i) / 4}, 0};
  net.funcs.push_back(blocked);
  net.funcs.back().lowered.name = "add_blocked";
  const ValueId x = net.value("x"), w = net.constant("w"), y = net.value("y"), z = net.value("z");
  net.graph.inputs = {x};
  net.graph.outputs = {y, z};
  net.call(0, {x, w, y});
  net.call(2, {x, w, z});
  const auto plan = net.plan();
  REQUIRE(plan->weights.bytes() == 128);
  const Place plain = plan->calls[0].args[1], packed = plan->calls[1].args[1];
  CHECK_FALSE(plain == packed);
  const auto* floats =
      reinterpret_cast<const float*>(static_cast<const char*>(plan->weights.data()) + packed.at);
  CHECK(std::vector<float>(floats, floats + 8) == std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7});
}

TEST_CASE("equal weights are stored once, tied by an Identity or not") {
  constexpr int64_t kSize = 600;
  const auto typed = [](const char* name) { return ModelValue{name, DType::f32, {{8, ""}, {kSize, ""}}}; };
  const Tensor weights = Tensor::random(DType::f32, {kSize, kSize}, 3);
  const auto bytes_of_model = [&](bool tied) {
    Model m;
    m.opsets = {{"", 17}};
    m.inputs = {typed("x")};
    m.outputs = {typed("y")};
    m.initializers = {{"a", weights},
                      {"b", tied ? weights.clone() : Tensor::random(DType::f32, {kSize, kSize}, 4)}};
    m.nodes = {{"Identity", "", "", {"a"}, {"a0"}, {}, {}},      {"Identity", "", "", {"a0"}, {"a1"}, {}, {}},
               {"MatMul", "", "", {"x", "a0"}, {"m0"}, {}, {}},  {"Relu", "", "", {"m0"}, {"r0"}, {}, {}},
               {"MatMul", "", "", {"r0", "a1"}, {"m1"}, {}, {}}, {"Tanh", "", "", {"m1"}, {"r1"}, {}, {}},
               {"MatMul", "", "", {"r1", "b"}, {"y"}, {}, {}}};
    CompileOptions options;
    options.schedules = default_schedules();
    return compile_model(Source{build_graph(m), std::nullopt}, options).plan->weights.bytes();
  };
  CHECK(2 * bytes_of_model(true) == bytes_of_model(false));
}
