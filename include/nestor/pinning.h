// Where threads stay. Left alone, the system moves a woken thread to where its waker runs, beside other work
// even onto the same core; and on a machine with several memory nodes a thread that moves leaves its data
// behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nestor {

enum class Pinning : uint8_t {
  none,
  compact,  // neighbours in the hierarchy of caches and memory nodes: they share data
  spread,   // memory nodes (or, in one node, last-level caches) in turn: they want bandwidth
};

// Throws UserError listing those there are.
Pinning parse_pinning(const std::string& name);

// CPUs for the threads 0 .. n-1 among those that this process may run on; a core gets its second thread when
// all have one, and beyond the last CPU they begin again. Empty for none.
std::vector<int32_t> cpus_for(int threads, Pinning how);

// The calling thread stays on this CPU. UserError where that can't be.
void pin_thread(int32_t cpu);

}  // namespace nestor
