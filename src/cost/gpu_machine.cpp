// Figures of GPUs from NVIDIA's data sheets and white papers and the table "Compute Capabilities" of the CUDA
// C++ Programming Guide: the common data-centre device of each architecture.
#include <cstdlib>

#include "nestor/gpu_cost.h"

namespace nestor {

namespace {

struct Row {
  int sm;
  GpuMachine machine;
};
constexpr double kKiB = 1024;
constexpr Row kRows[] = {
    {75, {"T4", 40, 1.59, 320, 4e6, 64, 64 * kKiB, 65536, 1024, 16}},
    {80, {"A100", 108, 1.41, 1555, 40e6, 64, 164 * kKiB, 65536, 2048, 32}},
    {86, {"A10", 72, 1.69, 600, 6e6, 128, 100 * kKiB, 65536, 1536, 16}},
    {89, {"L40S", 142, 2.52, 864, 96e6, 128, 100 * kKiB, 65536, 1536, 24}},
    {90, {"H100", 132, 1.83, 3350, 50e6, 128, 228 * kKiB, 65536, 2048, 32}},
    {100, {"B200", 148, 1.85, 8000, 126e6, 128, 228 * kKiB, 65536, 2048, 32}},
};

}  // namespace

GpuMachine gpu_machine_of(const Target& target) {
  const int sm = target.sm.size() > 3 ? std::atoi(target.sm.c_str() + 3) : 80;
  GpuMachine found = kRows[0].machine;
  for (const Row& r : kRows)
    if (r.sm <= sm) found = r.machine;
  return found;
}

}  // namespace nestor
