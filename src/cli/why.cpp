#include "src/cli/why.h"

#include <fmt/format.h>

#include <sstream>

#include "nestor/emulate.h"
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

namespace {

std::string ratio(int64_t did, int64_t ideal) {
  return ideal > 0 ? fmt::format("{:.2f}", static_cast<double>(did) / static_cast<double>(ideal)) : "none";
}

// Of some blocks of each kernel, with zeros as inputs.
void show_counts(const CompiledFunction& f, const Target& target) {
  constexpr int64_t kBlocks = 4;
  const CudaProgram program = make_cuda(f.lowered, target);
  std::vector<Tensor> args;
  for (const Param& p : f.lowered.params) {
    const auto size = as_int(p.decl.shape.at(0));
    if (!size) return;
    args.emplace_back(p.decl.buffer->type.dtype, std::vector<int64_t>{*size});
  }
  const std::vector<MemoryCounts> counts = Emulator({program}, Tracing::on).count(program, args, kBlocks);
  for (size_t k = 0; k < counts.size(); ++k)
    fmt::print(
        "# kernel {} of {} as emulated, {} blocks at most: sectors of device memory {} of the ideal, "
        "wavefronts of shared memory {}\n",
        k + 1, counts.size(), kBlocks, ratio(counts[k].sectors, counts[k].ideal_sectors),
        ratio(counts[k].wavefronts, counts[k].ideal_wavefronts));
}

}  // namespace

void show_reasons(const CompiledModel& model, bool emulate) {
  for (const CompiledFunction& f : model.funcs) {
    fmt::print("# {} schedule of {}\n", f.choice.origin, f.func.name);
    show_given_up(f.choice.trace);
    if (model.target.kind != TargetKind::cuda) continue;
    show_kernels(f, model.target, "#");
    if (emulate) show_counts(f, model.target);
  }
}

}  // namespace nestor::cli
