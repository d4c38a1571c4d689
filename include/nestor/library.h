// The analytic defaults: a schedule for every function, chosen in milliseconds from its access pattern and
// the target, made of public primitives only. Where a decision could be searched (tile sizes) the step is a
// `sample_*` line that holds the analytic choice, so that the same trace is the tuner's starting point.
#pragma once

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor {

// The annotation of a loop whose extent is a usual one, in a function whose schedule is for any extents:
// tiles of it are to leave little over wherever it ends.
constexpr const char* kOpenLoop = "open";

// A trace that applies to f without error. It is empty for functions with symbolic or zero extents; for
// others the least it does is parallel and vectorized loops.
Trace default_schedule(const PrimFunc& f, const Target& target);
// For a CPU: lanes and threads for each block by itself, and nothing kept in registers.
Trace plain_schedule(const PrimFunc& f, const Target& target);

}  // namespace nestor
