// The operations of a plan's calls.
#pragma once

#include <vector>

#include "nestor/driver.h"

namespace nestor {

// Fills plan.kernel_flops and plan.flops; the plan has all its calls.
void count_flops(Plan& plan, const Graph& g, const Partition& p, const std::vector<CompiledFunction>& funcs);

}  // namespace nestor
