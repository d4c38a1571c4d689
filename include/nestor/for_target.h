// Which steps mean nothing on a target.
#pragma once

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor {

// Refuses the first step that the target's code would leave out: on a GPU, what is for threads and caches of
// a CPU. The trace applies to f.
void check_for_target(const PrimFunc& f, const Trace& trace, const Target& target);

}  // namespace nestor
