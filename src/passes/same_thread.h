// Whether two accesses of one buffer can only meet in an element if the same thread makes both.
#pragma once

#include "src/passes/region.h"

namespace nestor::passes {

// `running`: loops whose iteration may differ between the two accesses. All other loops around both stand
// still.
bool only_same_thread(const Access& x, const Access& y, const std::vector<Var>& threads,
                      const std::vector<Var>& running);

}  // namespace nestor::passes
