// Reductions on a GPU whose results alone are too few threads.
#pragma once

#include <string>

#include "nestor/schedule.h"

namespace nestor::library {

// A long reduction of few results in two kernels: blocks reduce parts of it, and what is left is a reduction
// over the blocks' results. True where it was split; neither half is bound yet, and the first is the block's
// name with
// "_blocks" behind it.
bool split_over_blocks(Schedule& s, const std::string& block);

// A reduction over what doesn't lie side by side in memory: 32 results side by side, for each of which
// several threads sum their share of the terms. `epilogue`: the map that reads it, or empty.
bool bind_columns(Schedule& s, const std::string& block, const std::string& epilogue);

}  // namespace nestor::library
