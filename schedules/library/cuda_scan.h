// Blocks whose elements wait for each other, on a GPU: running sums, recurrences.
#pragma once

#include <string>

#include "nestor/schedule.h"

namespace nestor::library {

// Blocks for the outer loops whose iterations don't wait, threads for the inner ones; the loops between stay in
// their order, with barriers. False, and s as it was, where no loop can be bound.
bool bind_scan(Schedule& s, const std::string& block);

}  // namespace nestor::library
