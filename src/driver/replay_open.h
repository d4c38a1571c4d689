// A schedule that was chosen for typical sizes, replayed on a function whose sizes are open.
#pragma once

#include "nestor/schedule.h"

namespace nestor {

// The steps that are accepted; what was left out stands in `given_up`, with the reasons. Each step is checked
// by itself, so that any of them may be missing.
Trace accepted_steps(const PrimFunc& f, const Trace& trace);

}  // namespace nestor
