// `nestor doctor`: what this machine has, what is missing, and what that costs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "nestor/cuda.h"
#include "nestor/halide.h"
#include "nestor/measure.h"
#include "nestor/ops.h"
#include "src/cli/common.h"
#include "src/cli/version.h"

namespace nestor::cli {

namespace {

// ONNX's operators that a model may have, by name.
std::vector<std::string> operators() {
  std::set<std::string> out;
  for (const OpDef* op : all_ops())
    if (op->domain.empty()) out.insert(op->name);
  for (std::string& name : composed_operators()) out.insert(std::move(name));
  return {out.begin(), out.end()};
}

// Words in lines of at most 100 columns, the first behind the title.
void print_list(const std::string& title, const std::vector<std::string>& words) {
  constexpr size_t kColumn = 12, kWidth = 100;
  std::string line = fmt::format("{:<{}}", title, kColumn);
  for (const std::string& w : words) {
    if (line.size() + w.size() > kWidth) {
      fmt::print("{}\n", line);
      line = std::string(kColumn, ' ');
    }
    line += (line.size() > kColumn ? " " : "") + w;
  }
  fmt::print("{}\n", line);
}

}  // namespace

int run(const DoctorVerb& v) {
  const Target host = host_target();
  const CudaStatus cuda = cuda_status();
  const double peak = measure_fma_peak_gflops(50), copy = measure_copy_gbs(256 << 20);
  if (v.json) {
    fmt::print("{}\n", nlohmann::json{{"version", NESTOR_VERSION},
                                      {"commit", commit()},
                                      {"llvm", NESTOR_LLVM_VERSION},
                                      {"cpu", host.cpu},
                                      {"vector_bits", host.vector_bits},
                                      {"vector_registers", host.vector_registers},
                                      {"issue_width", host.issue_width},
                                      {"double_pumped", host.double_pumped},
                                      {"cores", host.cores},
                                      {"l1_bytes", host.l1_bytes},
                                      {"l1_ways", host.l1_ways},
                                      {"l2_bytes", host.l2_bytes},
                                      {"l3_bytes", host.l3_bytes},
                                      {"l3_bytes_per_cycle", host.l3_bytes_per_cycle},
                                      {"peak_gflops", peak},
                                      {"copy_gbs", copy},
                                      {"halide", halide_version()},
                                      {"nvrtc", cuda.nvrtc},
                                      {"operators", operators()},
                                      {"gpu", cuda.gpu}}
                           .dump());
    return 0;
  }
  fmt::print("nestor      {}\n", version());
  fmt::print("processor   {}, {} cores, {}-bit vectors{}, {} vector registers, {} micro-operations a cycle\n",
             host.cpu, host.cores, host.vector_bits, host.double_pumped ? " in two halves" : "",
             host.vector_registers, host.issue_width);
  fmt::print("caches      L1d {} KiB ({} ways), L2 {} KiB, L3 {} KiB ({} bytes a cycle to a core)\n",
             host.l1_bytes >> 10, host.l1_ways, host.l2_bytes >> 10, host.l3_bytes >> 10,
             host.l3_bytes_per_cycle);
  fmt::print("FMA peak    {:.0f} GFLOP/s a core (f32, one thread, best of 50 ms)\n", peak);
  fmt::print("copy        {:.1f} GB/s read + write (one thread, 256 MiB)\n", copy);
  fmt::print("Halide      {}\n", halide_version().empty()
                                     ? "not found: bench and verify can't compare with it"
                                     : halide_version());
  fmt::print("NVRTC       {}\n",
             cuda.nvrtc.empty() ? "not found: CUDA source is emitted, not compiled" : cuda.nvrtc);
  fmt::print("GPU         {}\n",
             cuda.gpu.empty() ? "none; --emulate runs CUDA kernels on the CPU" : cuda.gpu);
  std::string targets;
  for (const std::string& t : known_targets()) targets += (targets.empty() ? "" : ", ") + t;
  fmt::print("targets     {}\n", targets);
  print_list("operators", operators());
  print_list("Microsoft's", composed_operators("com.microsoft"));
  return 0;
}

}  // namespace nestor::cli
