// Two stages of one function do the same: interpreted on the same random inputs, their outputs agree.
#pragma once

#include "nestor/ir.h"

namespace nestor {

// `after` comes from `before` by lowering: its parameters may be flat and packed. Outputs must agree bit for
// bit, or, with `tolerance`, to that error, relative above 1 (where lowering contracts or expands).
void check_equivalent(const PrimFunc& before, const PrimFunc& after, double tolerance = 0, uint64_t seed = 1);

}  // namespace nestor
