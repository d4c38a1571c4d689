// One lane of a vector expression.
#pragma once

#include "nestor/ir.h"

namespace nestor::passes {

// Lane i of ramps, broadcasts, and arithmetic on them; null where something else is in it.
Expr lane_of(const Expr& e, int64_t i);

}  // namespace nestor::passes
