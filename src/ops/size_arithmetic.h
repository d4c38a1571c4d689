// Arithmetic of sizes as exporters write it, through i32 and floats: floor(float(N) * 2.0) is 2 * N.
#pragma once

#include "nestor/dim.h"

namespace nestor {

// The same over i64 wherever that is exact, cast to e's type in the end; e itself where it isn't, or e is a
// float. That sizes aren't beyond what narrow types hold exactly becomes a requirement.
Expr in_integers(const Expr& e, Symbols& symbols);

}  // namespace nestor
