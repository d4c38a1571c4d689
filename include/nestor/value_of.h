// The value of an index where its variables have values.
#pragma once

#include <optional>
#include <unordered_map>

#include "nestor/expr.h"

namespace nestor {

using Values = std::unordered_map<Var, int64_t>;

// Nothing where the expression holds what isn't known (other variables, data), or divides by what isn't
// positive.
std::optional<int64_t> value_of(const Expr& e, const Values& at);

}  // namespace nestor
