// The elements that a block touches while some loops are fixed, enumerated where bounds are too wide.
#pragma once

#include <optional>
#include <vector>

#include "nestor/value_of.h"
#include "schedules/access.h"

namespace nestor::schedules {

struct ExactRegion {
  std::vector<std::optional<Bound>> dims;  // as region_of gives them, tight where the index could be counted
  bool full = false;                       // every element within them is touched
};
// None where no guard is about the running loops alone (region_of is as good), or where there are too many
// iterations to count.
std::optional<ExactRegion> exact_region(const Place& p, const BlockAccess& access,
                                        const std::vector<Stmt>& standing);

// Whether iterations of `loop`, the loops around it standing still, touch different elements by the two
// accesses (or by the one): counted, where indices mix quotients and remainders of many loops. False too
// where there are too many iterations.
bool touch_in_one_iteration(const Place& p, const BlockAccess& x, const Place& q, const BlockAccess& y,
                            const Stmt& loop);

}  // namespace nestor::schedules
