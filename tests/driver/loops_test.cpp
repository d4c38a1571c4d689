// Loops of the plan: they give what their iterations, spelled out, give; and an iteration copies nothing.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/graph_oracle.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

NamedTensors random_inputs(const Plan& plan) {
  NamedTensors in;
  uint64_t seed = 1;
  for (const PlanTensor& t : plan.inputs) {
    in[t.name] = Tensor::random(t.dtype, t.shape, seed++);
    for (int64_t i = 0; t.dtype == DType::i32 && i < in[t.name].size(); ++i)
      in[t.name].set_int(i, 7 + 20 * i % 60);  // lengths of sequences
  }
  return in;
}

CompileOptions options_of(bool loops, int threads = 1) {
  CompileOptions options;
  options.threads = threads;
  options.build.control_flow = loops;
  return options;
}

// Copies between kLoop and kNext.
int copies_in_loops(const Plan& plan) {
  int depth = 0, copies = 0;
  for (const PlanCall& call : plan.calls) {
    if (call.kernel == kLoop) ++depth;
    if (call.kernel == kNext) --depth;
    copies += depth > 0 && call.kernel == kCopy;
  }
  return copies;
}

void check_as_spelled_out(const std::string& spec) {
  INFO(spec);
  const CompiledModel spelled = compile_model(spec, options_of(false));
  const NamedTensors in = random_inputs(*spelled.plan), want = make_executor(spelled)->run(in);
  for (const int threads : {1, 2}) {
    const CompiledModel loop = compile_model(spec, options_of(true, threads));
    CHECK(loop.plan->pointers > 0);
    CHECK(copies_in_loops(*loop.plan) == 0);
    CHECK(loop.plan->calls.size() < 60);
    CHECK(loop.plan->flops.done == Approx(spelled.plan->flops.done).epsilon(0.02));
    const NamedTensors got = make_executor(loop)->run(in);
    for (const auto& [name, tensor] : want) {
      const Comparison c = compare(got.at(name), tensor, {1e-5, 1e-6});
      INFO(describe(c, name, tensor));
      CHECK(c.ok());
    }
  }
}

}  // namespace

TEST_CASE("recurrent layers of many steps are loops that copy nothing") {
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    const int d = std::string(direction) == "bidirectional" ? 2 : 1;
    const auto weights = [&](int gates) {
      return fmt::format("f32[70,3,8], const f32[{0},{1},8], const f32[{0},{1},16], const f32[{0},{2}]", d,
                         gates * 16, gates * 32);
    };
    check_as_spelled_out(
        fmt::format("LSTM({}; hidden_size=16, direction=\"{}\") -> 3", weights(4), direction));
    check_as_spelled_out(
        fmt::format("GRU({}; hidden_size=16, direction=\"{}\") -> 2", weights(3), direction));
  }
  check_as_spelled_out(
      "LSTM(f32[70,3,8], const f32[1,64,8], const f32[1,64,16], const f32[1,128], i32[3], f32[1,3,16], "
      "f32[1,3,16], "
      "const f32[1,48]; hidden_size=16) -> 3");
  check_as_spelled_out("RNN(f32[70,3,8], f32[1,16,8], f32[1,16,16]; hidden_size=16)");
}

TEST_CASE("the oracle in f64 evaluates loops") {
  const CompileOptions options = options_of(true);
  auto [source, oracle] = load_with_oracle(
      "LSTM(f32[70,1,4], const f32[1,32,4], const f32[1,32,8], const f32[1,64]; hidden_size=8) -> 3",
      options);
  const CompiledModel model = compile_model(std::move(source), options);
  const NamedTensors in = random_inputs(*model.plan);
  NamedTensors out = make_executor(model)->run(in);
  for (const GraphOracle::Check& c : oracle.value().check(in, out)) {
    INFO(describe(c.comparison, c.name, c.want));
    CHECK(c.comparison.ok());
  }
  auto& [name, y] = *out.begin();
  y.set(y.size() / 2, y.get(y.size() / 2) + 0.01);
  int wrong = 0;
  for (const GraphOracle::Check& c : oracle.value().check(in, out)) wrong += !c.comparison.ok();
  CHECK(wrong == 1);
}
