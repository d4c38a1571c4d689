// Makes temporaries private to the iterations of a loop.
#pragma once

#include <optional>

#include "schedules/independence.h"

namespace nestor::schedules {

// Makes temporaries that clash only because iterations share them the iteration's own, by moving their
// allocation into the loop; needs that each iteration writes whatever it reads. Gives the conflict that
// remains, if one does.
std::optional<Conflict> make_independent(PrimFunc& f, const Var& loop, bool may_privatize);

// Does each iteration of the loop write every element of a temporary before it reads it, with no other
// accesses anywhere?
bool written_before_read(const PrimFunc& f, const Stmt& loop, const Buffer& b);

}  // namespace nestor::schedules
