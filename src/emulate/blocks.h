// One launch of an emulated kernel. Threads of a block are fibers where they wait for one another, which run
// one after the other in an order that the caller chooses; else they are calls. Each warp goes as far as it
// gets without the others, up to the next barrier of the block. A kernel that is right doesn't depend on the
// order.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/emulate/library.h"
#include "src/emulate/observer.h"

namespace nestor {

struct EmulatedLaunch {
  Emulation::Index grid{1, 1, 1}, block{1, 1, 1};
  size_t dynamic_shared = 0;  // bytes
  std::vector<size_t> bytes;  // that each argument points to; needed where the library is traced
  std::vector<LaunchObserver*> observers;
};

// In which order the n blocks of a grid or the n threads of a block run; null: as they are numbered.
using EmulatedOrder = std::function<std::vector<size_t>(size_t n)>;

// What is wrong, "" where nothing is: threads wait for others that never come, or at different lines; a
// vector isn't aligned; dynamic shared memory is left; an observer found something. Shared memory holds
// garbage at the start of each block. One launch of a library at a time.
std::string run_emulated(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
                         const EmulatedLaunch& launch, const EmulatedOrder& order = {});

}  // namespace nestor
