#include "src/cli/why.h"

#include <fmt/format.h>

#include <sstream>

#include "nestor/device.h"
#include "nestor/gpu_cost.h"

namespace nestor::cli {

void show_given_up(const Trace& trace) {
  for (const std::string& plan : trace.given_up) fmt::print("#     {}\n", plan);
}

void show_kernels(const CompiledFunction& f, const Target& target, const char* prefix) {
  const GpuMachine machine = gpu_machine_of(target);
  const GpuCost cost = price_gpu(f.lowered, target);
  for (size_t k = 0; k < cost.kernels.size(); ++k) {
    std::istringstream lines(print(cost.kernels[k], machine));
    fmt::print("{} kernel {} of {}\n", prefix, k + 1, cost.kernels.size());
    for (std::string line; std::getline(lines, line);) fmt::print("{}   {}\n", prefix, line);
  }
}

void show_reasons(const CompiledModel& model, bool emulate) {
  for (const CompiledFunction& f : model.funcs) {
    fmt::print("# {} schedule of {}\n", f.choice.origin, f.func.name);
    show_given_up(f.choice.trace);
    if (model.target.kind != TargetKind::cuda) continue;
    show_kernels(f, model.target, "#");
    if (!emulate) continue;
    const std::vector<std::string> lines = emulated_memory(f, model.target);
    for (size_t k = 0; k < lines.size(); ++k)
      fmt::print("# kernel {} of {} {}\n", k + 1, lines.size(), lines[k]);
  }
}

}  // namespace nestor::cli
