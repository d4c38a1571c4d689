// Loops of few iterations are run through, where what an index says by quotients and remainders of them is
// hard to see.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "nestor/simplify.h"
#include "nestor/value_of.h"
#include "nestor/walk.h"

namespace nestor::passes {

constexpr int64_t kMostCounted = int64_t{1} << 14;  // iterations

inline std::vector<Var> vars_of(const Expr& e) {
  std::vector<Var> out;
  for_each_expr(e, [&](const Expr& x) {
    const auto* r = x.as<VarRef>();
    if (r && std::find(out.begin(), out.end(), r->var) == out.end()) out.push_back(r->var);
  });
  return out;
}

// Runs through all values of the variables until `see` says no; false where they are too many.
template <class See>
bool run_through(const std::vector<Var>& vars, const Facts& facts, See&& see) {
  Values at;
  std::vector<std::pair<int64_t*, int64_t>> digits;  // a value, and the last one
  int64_t points = 1;
  for (const Var& v : vars) {
    const Interval r = facts.range(v);
    if (r.lo != 0 || r.hi >= kMostCounted / points) return false;
    points *= r.hi + 1;
    digits.emplace_back(&(at[v] = 0), r.hi);
  }
  for (;;) {
    if (!see(at)) return true;
    size_t i = digits.size();
    while (i > 0 && (*digits[i - 1].first)++ == digits[i - 1].second) *digits[--i].first = 0;
    if (i == 0) return true;
  }
}

}  // namespace nestor::passes
