#include "bench/cpu/ours.h"

#include <chrono>

#include "nestor/layout.h"
#include "nestor/library.h"
#include "nestor/pinning.h"

namespace nestor::bench {

double milliseconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Ours make_ours(const Problem& p, const Settings& settings, int threads) {
  Ours ours;
  CompileOptions options;
  options.target = parse_target(settings.target);
  options.threads = options.target.cores = threads;
  options.schedules = default_schedules();
  options.blocked_io = true;
  options.exact_conv = p.exact_conv;
  const CompiledModel model = compile_model(p.source, options);
  for (const PrimFunc& f : model.partition.funcs) {
    ours.schedule_ms += milliseconds_of([&] { default_schedule(f, model.target); });
    ours.compile_ms += milliseconds_of([&] {
      const CompiledFunction c = compile_function(f, options);
      JitModule::compile({c.lowered}, model.target);
    });
  }
  ours.executor = make_executor(model);
  if (const auto cpus = cpus_for(threads, parse_pinning(settings.pin)); !cpus.empty())
    ours.executor->pin(cpus);
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const auto blocks = channel_blocks(model, model.graph.inputs[i]);
    ours.data.push_back(blocks ? pack(p.inputs[i], *blocks) : p.inputs[i]);
    ours.inputs.push_back(ours.data.back().data());
  }
  ours.blocked_output = channel_blocks(model, model.graph.outputs[0]);
  ours.data.emplace_back(p.output.dtype(),
                         ours.blocked_output ? physical_shape(*ours.blocked_output) : p.output.shape());
  ours.outputs = {ours.data.back().data()};
  return ours;
}

Tensor result_of(const Ours& ours) {
  const Tensor& out = ours.data.back();
  return ours.blocked_output ? unpack(out, *ours.blocked_output) : out;
}

}  // namespace nestor::bench
