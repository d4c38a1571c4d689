// Finds two iterations that conflict, by enumerating the first ones, to show a reader why a proof failed.
#pragma once

#include <string>

#include "schedules/access.h"

namespace nestor::schedules {

// ": i=0 and i=1 both write T[0]", where the loops around `loop` stand at 0; empty where none is found among
// the first iterations.
std::string meeting_of(const Stmt& loop, const Place& a, const BlockAccess& x, const Place& b,
                       const BlockAccess& y);
// ": r=0 and r=1 both run vi=0 vk=0", likewise, of an instance that runs twice in the loops `moving`.
std::string repetition_of(const Place& p, const std::vector<Stmt>& moving);

}  // namespace nestor::schedules
