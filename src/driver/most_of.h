// How large a number may be, where some of the sizes in it are found by runs (Symbol::bound): memory is taken
// before a run, for the largest.
#pragma once

#include "nestor/dim.h"

namespace nestor {

// At least e whatever those sizes are, and over the others only; e itself where it has none. UserError where
// nothing bounds it.
Expr most_of(const Expr& e, const Symbols& symbols);

}  // namespace nestor
