// The analytic cost of a scheduled function: it is used to rank schedules, not to predict times. It depends
// on the IR alone, so graph passes and schedulers can both use it.
#pragma once

#include <string>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

// What a core of a processor does in a cycle, and what its memories give.
struct Machine {
  double fma_ports = 2, fma_latency = 4;  // of whole vectors
  double load_ports = 2, store_ports = 1;
  double issue = 6;  // micro-operations
  int vector_bits = 256, registers = 16;
  struct Level {
    double bytes = 0;          // capacity for one core
    double bytes_a_cycle = 0;  // from the level below it into this one
  } l1, l2, l3;
  double gigahertz = 3;
  double wake_us = 5;  // until threads work on a parallel loop
};
// By the target's processor where there is a row of it, else by its class and what the target says.
Machine machine_of(const Target& target);

// Cycles, of which each core has its share.
struct Cost {
  double arithmetic = 0, loads = 0, stores = 0, issue = 0;  // by ports
  double latency = 0;                                       // of sums that wait for themselves
  double l2 = 0, l3 = 0, memory = 0;                        // for bytes that come from there
  double waiting = 0;                                       // until threads work
  double code = 0;                                          // instructions that are written out
  // Of nests one after the other, each by what it has most of.
  double total = 0;
};
std::string print(const Cost& c);

// Of a function whose blocks stand in loops of known extents, by so many threads.
Cost price(const PrimFunc& f, const Target& target, int threads = 1);

}  // namespace nestor
