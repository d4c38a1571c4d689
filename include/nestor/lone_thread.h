// Finds work that only one thread of a CUDA kernel does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

struct LoneBlock {
  std::string name;
  int64_t threads = 0;             // of its kernel
  std::vector<std::string> steps;  // that bind its loops
};
// A scheduled function's blocks that the first thread of many runs alone, though they could be bound, as the
// first copies of a software pipeline whose loops are bound afterwards.
std::vector<LoneBlock> lone_blocks(const PrimFunc& scheduled);

}  // namespace nestor
