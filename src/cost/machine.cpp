// Figures of processors, per core: ports and latencies from the vendors' optimization guides and uops.info,
// bytes a cycle as measured by one core's copies and sums.
#include <algorithm>

#include "nestor/cost.h"

namespace nestor {

namespace {

struct Row {
  const char* cpu;  // LLVM's name begins with it
  double fma_ports, fma_latency, load_ports, store_ports, issue;
  double from_l2, from_l3, from_memory;  // bytes a cycle
  double gigahertz;
};
constexpr Row kRows[] = {
    {"znver5", 2, 4, 2, 1, 8, 48, 20, 10, 4.2},       {"znver4", 1, 4, 1, 0.5, 6, 32, 16, 8, 3.7},
    {"znver3", 2, 4, 3, 2, 6, 32, 16, 8, 3.5},        {"znver2", 2, 5, 2, 1, 5, 32, 16, 8, 3.3},
    {"znver1", 1, 5, 1, 0.5, 5, 32, 16, 7, 3.0},      {"cascadelake", 2, 4, 2, 1, 4, 40, 7, 4, 2.8},
    {"skylake-avx512", 2, 4, 2, 1, 4, 40, 7, 4, 2.8}, {"icelake-server", 2, 4, 2, 1, 5, 40, 8, 5, 2.9},
    {"sapphirerapids", 2, 4, 2, 1, 6, 48, 8, 5, 3.0}, {"emeraldrapids", 2, 4, 2, 1, 6, 48, 8, 5, 3.0},
    {"graniterapids", 2, 4, 2, 1, 6, 48, 10, 6, 3.2}, {"haswell", 2, 5, 2, 1, 4, 32, 12, 6, 3.0},
    {"skylake", 2, 4, 2, 1, 4, 40, 12, 7, 3.5},       {"neoverse-n1", 2, 4, 2, 1, 4, 32, 12, 6, 3.0},
    {"neoverse-v1", 2, 4, 2, 1, 8, 32, 12, 8, 2.6}};

}  // namespace

Machine machine_of(const Target& target) {
  Machine m;
  m.vector_bits = target.vector_bits;
  m.registers = target.vector_registers;
  m.issue = target.issue_width;
  m.l1.bytes = static_cast<double>(target.l1_bytes);
  m.l2.bytes = static_cast<double>(target.l2_bytes);
  m.l3.bytes = static_cast<double>(target.l3_bytes);
  m.l1.bytes_a_cycle = 32;
  m.l2.bytes_a_cycle = target.l3_bytes_per_cycle;
  m.l3.bytes_a_cycle = std::min(8.0, target.l3_bytes_per_cycle);
  m.wake_us = target.parallel_us;
  for (const Row& r : kRows) {
    if (!target.cpu.starts_with(r.cpu)) continue;
    m.fma_ports = r.fma_ports;
    m.fma_latency = r.fma_latency;
    m.load_ports = r.load_ports;
    m.store_ports = r.store_ports;
    m.issue = r.issue;
    m.l1.bytes_a_cycle = r.from_l2;
    m.l2.bytes_a_cycle = r.from_l3;
    m.l3.bytes_a_cycle = r.from_memory;
    m.gigahertz = r.gigahertz;
    break;
  }
  if (target.double_pumped) m.fma_ports = std::min(m.fma_ports, 1.0);
  return m;
}

}  // namespace nestor
