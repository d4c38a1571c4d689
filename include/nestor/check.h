// Well-formedness: what every pass may rely on. Run after each pass in tests, after parsing, and before code
// generation.
#pragma once

#include "nestor/ir.h"

namespace nestor {

// Throws UserError with the IR underlined if:
//  - a variable or buffer is used outside its scope, or bound twice (a let inside an expression may stand
//    in several places, as expressions are shared, but not inside itself); a node misses a child;
//  - an index count differs from the buffer's rank; types disagree; a literal doesn't fit its type; an
//    extent is negative;
//  - a loop name repeats on a path; a block name repeats in the function;
//  - a block is bound to something other than loop variables (or iterators of a block around it), uses a
//    loop variable from outside directly, or its `init` uses a reduction iterator;
//  - an `in` or `const` parameter is written; a shape or layout reads a buffer.
void check_well_formed(const PrimFunc& f);

}  // namespace nestor
