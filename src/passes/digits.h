// What indices reveal about the loop variables in them.
#pragma once

#include <vector>

#include "nestor/simplify.h"

namespace nestor::passes {

// True if the values of the expressions leave one value for the variable: of r/6, r%6/2 and r%2 for r, of
// i*4 + j for i where j is below 4.
bool determines(std::vector<Expr> known, const Var& v, const Facts& facts);

}  // namespace nestor::passes
