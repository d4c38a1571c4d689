// Well-formedness: what every pass may rely on. Run after each pass in tests, after parsing, and before code generation.
#pragma once

#include "nestor/ir.h"

namespace nestor {

// Throws UserError with the IR underlined if: a variable or buffer is used outside its scope or bound twice; an index
// count differs from the buffer's rank; a loop name repeats on a path; a block name repeats in the function; a block is
// bound to something other than loop variables; an `in` or `const` parameter is written; types disagree.
void check_well_formed(const PrimFunc& f);

}  // namespace nestor
