// The analytic cost of a function on a GPU, from its lowered form: its kernels, threads and memory accesses.
// It is used to rank schedules and to say what limits a kernel, not to predict times.
#pragma once

#include <string>
#include <vector>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

struct GpuMachine {
  const char* name = "";  // the device that the figures are of
  double multiprocessors = 108, gigahertz = 1.41, memory_gbs = 1555;
  double l2_bytes = 40e6;
  // Of one multiprocessor.
  double fp32_lanes = 64, shared_bytes = 164 << 10, registers = 65536;
  int threads = 2048, blocks = 32;
};
// Of the target's architecture; of the nearest older one where there is no row of it.
GpuMachine gpu_machine_of(const Target& target);

struct GpuKernelCost {
  double blocks = 1, threads = 1;  // of the launch, of a block
  double shared_bytes = 0;         // of a block
  double own_words = 0;            // 32-bit words of a thread's own arrays: registers at least
  double resident = 0;             // blocks of one multiprocessor at a time
  const char* limit = "";          // what keeps more away: "threads", "shared memory", "blocks", "registers"
  double occupancy = 0;            // warps there, of those that there could be
  double waves = 0;
  // Cycles of the device: arithmetic, instructions, shared memory, L1, what one thread waits, device memory.
  double arithmetic = 0, issue = 0, shared = 0, l1 = 0, latency = 0, memory = 0;
  double total = 0;
  const char* binds = "";  // the largest of them
  // Of all warps: 32-byte sectors of device memory and passes through shared memory, and how few would do if
  // each access were dense and without bank conflicts.
  double sectors = 0, ideal_sectors = 0, wavefronts = 0, ideal_wavefronts = 0;
};
struct GpuCost {
  std::vector<GpuKernelCost> kernels;
  double total = 0;  // cycles, with those of the launches
};
GpuCost price_gpu(const PrimFunc& lowered, const Target& target);

std::string print(const GpuKernelCost& k, const GpuMachine& machine);  // a few lines

}  // namespace nestor
