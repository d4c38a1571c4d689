// The elements that a block touches while some loops are fixed, enumerated where bounds are too wide.
#pragma once

#include <optional>
#include <vector>

#include "schedules/access.h"

namespace nestor::schedules {

// An integer expression where its variables have these values; none where it has others, or more than
// arithmetic.
std::optional<int64_t> value_at(const Expr& e, const std::unordered_map<Var, int64_t>& at);

struct ExactRegion {
  std::vector<std::optional<Bound>> dims;  // as region_of gives them, tight where the index could be counted
  bool full = false;                       // every element within them is touched
};
// None where no guard is about the running loops alone (region_of is as good), or where there are too many
// iterations to count.
std::optional<ExactRegion> exact_region(const Place& p, const BlockAccess& access,
                                        const std::vector<Stmt>& standing);

}  // namespace nestor::schedules
