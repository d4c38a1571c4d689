// Schedules of running results; see scan.cpp.
#pragma once

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor::library {

// Whether the function's last block makes each element from one before.
bool is_scan(const PrimFunc& f);

// The schedule of such a function. Where it has other blocks than src/ops/scan.cpp makes, nothing happens.
void scan(Schedule& s, const Target& target);

}  // namespace nestor::library
