// The value of an expression at one point, for inputs of random numbers.
#pragma once

#include "src/verify/proof_flow.h"

namespace nestor::verify {

// The expression at a point of the statement's variables. The inputs are the same numbers for both functions
// of a proof. nullopt where that can't be said, or would take too long.
std::optional<double> value_at(Flow& flow, const Statement& s, const Expr& e, const Point& p);

}  // namespace nestor::verify
