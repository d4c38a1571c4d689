// Schedules for a function whose sizes are open: those of a function of known sizes, replayed.
#pragma once

#include <unordered_map>
#include <vector>

#include "nestor/driver.h"
#include "nestor/schedule.h"

namespace nestor {

bool from_database(const ScheduleChoice& choice);

struct Replay {
  Trace trace;   // the steps that are accepted; the reasons of the others stand in `given_up`
  int lost = 0;  // steps that weren't, but for hints
};
// Each step is checked by itself, so that any of them may be missing.
Replay accepted_steps(const PrimFunc& f, const Trace& trace);

// What to try, best first. A database or a file is asked for the function of typical sizes. The default
// schedule is that of sizes near them which no tile divides, so that it has loops for what is left over; or
// of larger ones, where it takes some loop for short.
std::vector<ScheduleChoice> choices_for_open_sizes(const PrimFunc& f,
                                                   const std::unordered_map<Var, int64_t>& typical,
                                                   const CompileOptions& options);

}  // namespace nestor
