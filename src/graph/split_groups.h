#pragma once

#include "nestor/ir.h"

namespace nestor {

// The function with groups of channels as a dimension of their own: where the iterator o occurs as o/k (the
// group that output channel o is in), it becomes og and o, of extents n/k and k, and with it the dimensions
// that it walks; [1,96,56,56] becomes [1,4,24,56,56]. Indices are then plain iterators, as in a batch of
// convolutions, and what moves with the group doesn't move with the channel. The bytes of every parameter
// stay the same. f as it is where not all that touches such a dimension can follow, or where o is what the
// output lies dense along. f is as FuncBuilder makes it.
PrimFunc split_groups(const PrimFunc& f);

}  // namespace nestor
