// Vectorized reduction loops: `vectorized k { X[i] = X[i] op e(k) }`.
#pragma once

#include "src/passes/widen.h"

namespace nestor::passes {

// The loop as partial results per lane, or nullopt where its body is not one reduction into an element that
// the loop doesn't move. A step of the schedule asked for it: the order of the operations changes.
std::optional<Stmt> reduce_lanes(const For& loop, int lanes, const Facts& facts, const BufferSizes& sizes);

}  // namespace nestor::passes
