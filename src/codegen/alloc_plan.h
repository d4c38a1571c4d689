// Where each temporary of a lowered function is stored. The plan doesn't depend on LLVM; `workspace_bytes`
// and the code that uses the workspace both use it, so they can't disagree.
#pragma once

#include <unordered_map>

#include "nestor/ir.h"

namespace nestor {

enum class Place : uint8_t {
  registers,  // a variable per element: `local` and indexed by constants only
  stack,      // small, in the frame of the function or of a worker's task
  serial,     // workspace, at `offset`
  worker,     // workspace, at `offset` in the slice of the worker
};

struct AllocSlot {
  Place place = Place::stack;
  int64_t elements = 0;  // of the buffer's type, which may be a vector
  int64_t offset = 0;    // bytes
};

struct AllocPlan {
  std::unordered_map<Buffer, AllocSlot> slots;
  int64_t serial_bytes = 0;  // then one slice of worker_bytes per worker; both multiples of 64
  int64_t worker_bytes = 0;
};

AllocPlan plan_allocs(const PrimFunc& lowered);

}  // namespace nestor
