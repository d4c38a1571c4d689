// Elementwise works on a GPU: each element by itself, as whatever moves or computes them.
#pragma once

#include <string>

#include "nestor/schedule.h"

namespace nestor::library {

// The block's nest as a kernel of its own; false, and s as it was, where the block isn't a map of plain loops.
bool bind_map(Schedule& s, const std::string& block);

}  // namespace nestor::library
