// Whether two blocks never touch the same element, whichever of their instances run.
#pragma once

#include "schedules/access.h"

namespace nestor::schedules {

// True if no element is touched by both accesses, over the whole domains of the blocks' iterators: in some
// dimension their ranges don't meet, or they leave different remainders (2 i and 2 j + 1).
bool never_meet(const Block& a, const BlockAccess& x, const Block& b, const BlockAccess& y);

// True if `d` plus a value of `rest` is never 0, whatever the variables of `d`: t+1 - t, or of two buffers
// used in turn (t+1)%2 - t%2.
bool never_zero(const Linear& d, const Interval& rest);

}  // namespace nestor::schedules
