#pragma once

#include "nestor/schedule.h"

namespace nestor {

// A sum over an open size may have nothing to add, and then no iteration that could store what it starts
// from: that becomes a block of its own, before the loops of the sum, by steps that are added to the trace.
// Throws ScheduleError where that can't be.
PrimFunc start_before_loops(PrimFunc f, Trace& trace);

}  // namespace nestor
