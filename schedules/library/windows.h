// About windows over an image, for what has it fetched ahead: prefetch_windows.cpp,
// prefetch_next_windows.cpp.
#pragma once

#include <string>
#include <vector>

#include "schedules/library/planner.h"

namespace nestor::library {

// Whether an index moves by one element with each step of i.
bool moves_by_one(const Access& a, const Iter& i);

// How much of an image a core finds beside weights and results in its second-level cache.
int64_t stays_of(const Target& target);

// The elements that one step of r reads lie further than `reach` elements from those of the next, and no
// window slides along it.
bool lies_apart(const BlockInfo& b, const Access& a, const Iter& r, int64_t reach);

// The loops outside of a row of windows.
std::vector<LoopInfo> loops_around_row(const Schedule& s, const std::string& block,
                                       const std::string& row_tiles, const std::vector<std::string>& reduced);

}  // namespace nestor::library
