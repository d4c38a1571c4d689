// Functions as templates over their symbolic dimensions.
#pragma once

#include <optional>

#include "nestor/ir.h"
#include "nestor/walk.h"

namespace nestor::ops {

// e itself, or its value where it is i64 arithmetic on two immediates.
Expr fold_integers(const Expr& e);
// The value of e once variables have values; absent where something else is in it.
std::optional<int64_t> evaluate(const Expr& e, const VarMap& values);

}  // namespace nestor::ops
