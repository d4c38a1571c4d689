// The families of plans, and the condition under which each matches.
#pragma once

#include "nestor/plan.h"

namespace nestor::plans {

// Null where a block's loops are symbolic, or no block's are its iterators'.
std::unique_ptr<PlanSpace> any_plans(const PrimFunc& f, const Target& target);

}  // namespace nestor::plans
