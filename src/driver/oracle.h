// What the oracles of functions and of whole graphs share.
#pragma once

#include "nestor/ir.h"

namespace nestor {

// The unscheduled function with its loops as an oracle runs them: large sums in an order that memory likes,
// each result's terms in theirs.
PrimFunc in_oracle_order(const PrimFunc& f);

}  // namespace nestor
