// Schedules for a function whose sizes are open: those of a function of known sizes, replayed.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nestor/driver.h"
#include "nestor/schedule.h"

namespace nestor {

bool from_database(const std::string& origin);

struct Replay {
  Trace trace;   // the steps that are accepted; the reasons of the others stand in `given_up`
  int lost = 0;  // steps that weren't, but for hints
};
// Each step is checked by itself, so that any of them may be missing.
Replay accepted_steps(const PrimFunc& f, const Trace& trace);

struct OpenChoice {
  std::string origin;
  std::function<Replay()> make;
};
// What to try; the first that loses nothing, else the one that loses least. A database or a file is asked for
// the function of typical sizes. The default schedule is that of sizes near them which no tile divides, so
// that it has loops for what is left over; or of larger ones, where it takes some loop for short; or of
// several samples, where one is usual. Those of "plain" are for functions that can have none of these.
// `options` must outlive the choices.
std::vector<OpenChoice> choices_for_open_sizes(const PrimFunc& f,
                                               const std::unordered_map<Var, int64_t>& typical,
                                               const CompileOptions& options);

}  // namespace nestor
