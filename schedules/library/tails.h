// Loops with a tail to peel or to mask.
#pragma once

#include <string>

#include "nestor/schedule.h"

namespace nestor::library {

// Whether the loop around the block is one. Fused with others it would branch in each iteration, so that
// defaults leave it alone.
bool has_tail(const PrimFunc& f, const std::string& block, const std::string& loop);

}  // namespace nestor::library
