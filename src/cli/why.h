// What --why says of schedules and kernels, as lines behind a comment's prefix.
#pragma once

#include "nestor/driver.h"

namespace nestor::cli {

// Plans that were tried before the schedule, and why each was given up.
void show_given_up(const Trace& trace);
// What one call of each kernel costs, by the analytic price.
void show_kernels(const CompiledFunction& f, const Target& target, const char* prefix);
// Both, for each function; where `emulate`, what a few blocks of each kernel really do to memory.
void show_reasons(const CompiledModel& model, bool emulate);

}  // namespace nestor::cli
