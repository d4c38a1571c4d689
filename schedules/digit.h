// The quick proof that blocks meet only within an iteration of a loop: an index of both holds the loop as a
// digit of its own, as `4*y0 + y1` with y1 < 4 holds y0. Told by bindings alone, where nothing but loops
// inside is beside it; what this can't tell, independence.cpp's solver may.
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
