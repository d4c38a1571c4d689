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

// The same expression over the same variables and buffers.
bool same(const Expr& a, const Expr& b);
// For maps keyed by expressions; their order must reach no output.
struct HashExpr {
  size_t operator()(const Expr& e) const;
};
struct SameExpr {
  bool operator()(const Expr& a, const Expr& b) const { return same(a, b); }
};

// e = base + stride * v with base and stride free of v, or nullopt. Stride may be an expression.
struct Strided {
  Expr base, stride;
};
std::optional<Strided> strided(const Expr& e, const Var& v);

}  // namespace nestor::passes
