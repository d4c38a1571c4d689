// Integer expressions as sums: constant + Σ coefficient * atom, where an atom is a variable or anything that
// isn't linear.
#pragma once

#include <optional>

#include "nestor/simplify.h"

namespace nestor::passes {

struct Linear {
  std::vector<std::pair<Expr, int64_t>> terms;  // equal atoms joined, coefficients not 0
  int64_t constant = 0;
};
Linear linear(const Expr& e);
Expr to_expr(const Linear& sum);

// e = base + stride * v with base and stride free of v, or nullopt. Stride may be an expression.
struct Strided {
  Expr base, stride;
};
std::optional<Strided> strided(const Expr& e, const Var& v);

}  // namespace nestor::passes
