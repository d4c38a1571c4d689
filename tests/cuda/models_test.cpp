// Whole models on the emulated device: the emitted source of a model compiled as one, every function and the
// model as a whole compared with the oracles.
#include "models.h"

#include "catch.h"
#include "check.h"
#include "nestor/device.h"
#include "nestor/graph_oracle.h"
#include "src/graph/unfolded.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

CompiledModel compiled(const Model& model, const std::string& target, bool check_indices = false) {
  CompileOptions options;
  options.target = parse_target(target);
  options.schedules = default_schedules();
  options.check_indices = check_indices;
  return compile_model(Source{build_graph(model, {}), std::nullopt}, options);
}

NamedTensors drawn_inputs(const Runnable& r) {
  NamedTensors out;
  uint64_t seed = 0;
  for (const PlanTensor& t : r.inputs()) out[t.name] = Tensor::random(t.dtype, t.shape, ++seed);
  return out;
}

void check_emulated(const std::vector<NamedModel>& models) {
  for (const auto& [name, model] : models) {
    INFO(name);
    const CompiledModel m = compiled(model, "cuda:sm_80");
    const Device device(m, true);
    for (const CompiledFunction& f : m.funcs)
      for (const OutputCheck& c : check_function(f, Against::oracle, m.target, device)) {
        INFO(describe(c.comparison, c.name, c.want));
        CHECK(c.comparison.ok());
      }
    const auto runnable = device.make_runnable();
    const NamedTensors inputs = drawn_inputs(*runnable);
    GraphOracle oracle(build_unfolded(model, {}), host_target());
    for (int run = 0; run < 3; ++run)  // from the second on as a graph of kernels
      for (const GraphOracle::Check& c : oracle.check(inputs, runnable->run(inputs))) {
        INFO(run << describe(c.comparison, c.name, c.want));
        CHECK(c.comparison.ok());
      }
  }
}

}  // namespace

TEST_CASE("models agree with the oracles on an emulated device") {
  check_emulated(small_models());
}

TEST_CASE("models in halves agree with the oracles on an emulated device") {
  check_emulated({{"a BERT block in f16", in_halves(bert_block(12, 48, 3), DType::f16)},
                  {"a BERT block in bf16", in_halves(bert_block(12, 48, 3), DType::bf16)},
                  {"MobileNetV2 in f16", in_halves(mobilenet_v2(32), DType::f16)}});
}

TEST_CASE("an index out of range ends a run on a device where indices are checked") {
  const CompiledModel m = compiled(gather_rows(), "cuda:sm_80", true);
  const Device device(m, true);
  const auto runnable = device.make_runnable();
  Tensor rows(DType::i64, {3});
  for (int64_t i = 0; i < 3; ++i) rows.set_int(i, 2 * i);
  const Tensor good = runnable->run({{"rows", rows}}).begin()->second;
  rows.set_int(1, 5);
  CHECK_THROWS_WITH(runnable->run({{"rows", rows}}),
                    Catch::Contains("Gather: an index is out of range, for a dimension of 5"));
  rows.set_int(1, 2);
  const Tensor again = runnable->run({{"rows", rows}}).begin()->second;
  for (int64_t i = 0; i < good.size(); ++i) CHECK(good.get(i) == again.get(i));
}

TEST_CASE("what can't run here says so, and names what can") {
  const CompiledModel m = compiled(lstm_step(4, 4), "cuda:sm_80");
  if (cuda_status().gpu.empty()) CHECK_THROWS_WITH(Device(m), Catch::Contains("--emulate runs the kernels"));
  CHECK_THROWS_WITH(make_executor(m), Catch::Contains("cuda:sm_80"));
  CompileOptions cpu;
  const CompiledModel native = compile_model(Source{build_graph(lstm_step(4, 4), {}), std::nullopt}, cpu);
  CHECK_THROWS_WITH(Device(native, true), Catch::Contains("--emulate is for CUDA targets"));
}
