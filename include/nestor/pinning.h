// Pins threads to CPUs. Without pinning, the system may move a woken thread to the core of its waker, even if
// that core is busy. On a machine with several memory nodes, a thread that moves is also far from its data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestor/runtime.h"

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

// The same on a machine that hwloc describes, as "numa:2 core:4 pu:2": what this one's shape can't show.
std::vector<int32_t> cpus_for(int threads, Pinning how, const std::string& machine);

// How memory is placed: none, parts, interleave. UserError naming those there are; where there is no CPU that
// the threads stay on; and for replicate, which one process a node does.
Placement parse_placement(const std::string& name, const std::vector<int32_t>& cpus);

// The memory nodes of these CPUs, as many as there are different ones.
int memory_nodes_of(const std::vector<int32_t>& cpus);

// The calling thread stays on this CPU. UserError where that can't be.
void pin_thread(int32_t cpu);

}  // namespace nestor
