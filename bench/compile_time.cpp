// How long does it take from a loop nest to machine code, and how much of that is the choice of the schedule?
#include <benchmark/benchmark.h>

#include "nestor/driver.h"
#include "nestor/library.h"

namespace {

using namespace nestor;

const char* const kSpecs[] = {
    "MatMul(f32[512,512], const f32[512,512])",
    "MatMul(f32[1009,1009], const f32[1009,1009])",
    "Conv(f32[1,64,56,56], const f32[64,64,3,3], const f32[64]; pads=[1,1,1,1])",
    "Conv(f32[1,256,14,14], const f32[256,256,3,3], const f32[256]; pads=[1,1,1,1])",
    "Conv(f32[1,96,28,28], const f32[96,1,3,3], const f32[96]; group=96, pads=[1,1,1,1])",
    "Softmax(f32[1536,128])",
    "LayerNormalization(f32[128,768], const f32[768], const f32[768])",
};

// As the operator stands in a network: layouts and algorithms chosen.
PrimFunc func_of(const char* spec) {
  CompileOptions options;
  options.schedules = default_schedules();
  options.blocked_io = true;
  return compile_model(load(spec), options).partition.funcs.at(0);
}

void choose_schedule(benchmark::State& state) {
  const char* spec = kSpecs[state.range(0)];
  const PrimFunc f = func_of(spec);
  const Target target = host_target();
  for (auto _ : state) benchmark::DoNotOptimize(default_schedule(f, target));
  state.SetLabel(spec);
}
BENCHMARK(choose_schedule)->DenseRange(0, std::size(kSpecs) - 1)->Unit(benchmark::kMillisecond);

void whole_compile(benchmark::State& state) {
  const char* spec = kSpecs[state.range(0)];
  const PrimFunc f = func_of(spec);
  const Target target = host_target();
  for (auto _ : state) {
    const CompiledFunction c = compile_function(f, {default_schedule(f, target), "default"}, target);
    benchmark::DoNotOptimize(JitModule::compile({c.lowered}, target));
  }
  state.SetLabel(spec);
}
BENCHMARK(whole_compile)->DenseRange(0, std::size(kSpecs) - 1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
