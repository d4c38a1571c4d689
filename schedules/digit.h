// A quick proof that blocks touch the same element only within one iteration of a loop: an index of both
// contains the loop as a digit, as `4*y0 + y1` with y1 < 4 contains y0. It looks at bindings only, with
// nothing but inner loops in the rest of the index. The solver of independence.cpp can prove more.
#pragma once

#include <optional>
#include <vector>

#include "schedules/access.h"

namespace nestor::schedules {

// An index as factor * loop + [lo, hi].
struct Digit {
  int64_t factor = 0, lo = 0, hi = 0;
};
using Digits = std::vector<std::optional<Digit>>;  // of each dimension; none where it is anything else

// Of an access of p's block, its indices over the block's iterators; `loop` is around p.
Digits digits_of(const Place& p, const BlockAccess& access, const Stmt& loop);

// Two accesses of one buffer touch an element only in the same iteration.
bool tell_apart(const Digits& a, const Digits& b);

}  // namespace nestor::schedules
