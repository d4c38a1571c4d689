// The analytic default for GPUs: every output element a thread, reductions serial inside of it.
#pragma once

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor {

// A trace that applies to f without error and leaves nothing that could run on many threads to one.
Trace default_cuda_schedule(const PrimFunc& f, const Target& target);

// Binds the loops of every nest that isn't bound yet: the S loops of a block fused, and cut into blocks of
// threads.
void bind_nests(Schedule& s);

}  // namespace nestor
