// One launch of an emulated kernel. Threads of a block are fibers where they wait for one another, which run
// one after the other, each up to the next barrier, in an order that the caller chooses; else they are calls.
// A kernel that is right doesn't depend on the order.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/emulate/emulation.h"

namespace nestor {

struct EmulatedLibrary {
  void (*attach)(Emulation*) = nullptr;  // nestor_attach and nestor_poison_shared of the library
  void (*poison)() = nullptr;
};

// In which order the n blocks of a grid or the n threads of a block run; null: as they are numbered.
using EmulatedOrder = std::function<std::vector<size_t>(size_t n)>;

// What is wrong, "" where nothing is: some threads of a block wait at a barrier and others have finished.
// Shared memory holds garbage at the start of each block. One launch of a library at a time.
std::string run_emulated(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
                         Emulation::Index grid, Emulation::Index block, const EmulatedOrder& order = {});

}  // namespace nestor
