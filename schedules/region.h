// The part of a buffer that an access touches while some of the loops around it run and the others are fixed.
#pragma once

#include <optional>
#include <vector>

#include "schedules/access.h"

namespace nestor::schedules {

// With the loops `standing` still and the others running, does the block write every element of its bounds
// (bound_of)? True where each index moves with loops of its own, in steps of 1 without a gap, cut only by the
// iterators' domains.
bool gapless(const Place& p, const BlockAccess& write, const std::vector<Stmt>& standing);  // but for guards
bool fills_region(const Place& p, const BlockAccess& write, const std::vector<Stmt>& standing);
// A loop over a symbolic size may run never. That leaves no element out where it is one of the element's own
// loops, or a reduction's: what an empty reduction writes isn't defined.
bool runs_where_elements_are(const Place& p, const BlockAccess& write, const std::vector<Stmt>& standing);

// With all loops running, the binding's bounds hold the iterator's whole domain.
bool covers_domain(const Place& p, const IterVar& i);

// The bounds of an access, each dimension's by bound_of, with the loops `standing` still and the others
// running.
std::vector<std::optional<Bound>> region_of(const Place& p, const BlockAccess& access,
                                            const std::vector<Stmt>& standing);
// The same, with loops running no further than guards let them whose sum the index holds.
std::vector<std::optional<Bound>> guarded_region_of(const Place& p, const BlockAccess& access,
                                                    const std::vector<Stmt>& standing);

}  // namespace nestor::schedules
