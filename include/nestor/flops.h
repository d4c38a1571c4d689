// How much arithmetic a function does, for reports: floating-point operations, counted on the loop nest as
// written.
#pragma once

#include "nestor/ir.h"

namespace nestor {

// Additions, multiplications, comparisons and math functions on floats, each 1; a `+=` adds 1. What occurs
// twice in a statement counts once. Block instances outside their domains are counted as if they ran, and of
// two branches the one that does more. Symbolic extents count as 1.
double flops_of(const PrimFunc& f);

// How many times innermost statements run, whatever they compute; symbolic extents count as 1.
double work_of(const Stmt& s);

}  // namespace nestor
