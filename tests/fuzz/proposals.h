// Random steps, one primitive at a time.
#pragma once

#include <random>
#include <string>

#include "nestor/schedule.h"

namespace nestor {

// A line for `primitive`, plausible rather than legal; "" where there is nothing to propose. Half of the
// lines are about the block `focus`: bugs gather where several primitives met on one nest. `gpu`: memory may
// be shared by threads.
std::string propose(const Schedule& s, const std::string& primitive, const std::string& focus, bool gpu,
                    std::mt19937_64& rng);

}  // namespace nestor
