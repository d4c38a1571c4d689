// A search for GPU schedules where there is no GPU: candidates are ordered by the analytic price
// (gpu_cost.h), and each that would be the best so far must agree with the oracle when it is emulated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor {

struct PricedOptions {
  Target target;
  int64_t trials = 200;  // candidates priced, for a function
  uint64_t seed = 0;
  std::function<bool()> stop;  // asked between candidates
};

struct PricedResult {
  double start = 0, best = 0;  // cycles by the price
  Trace trace;                 // of the best
  int priced = 0, refused = 0, emulated = 0;
  std::vector<std::string> wrong;  // what a candidate that doesn't agree computes: a bug of ours
};
// From `start` on: its decisions and those of the default schedule are changed. UserError where a step of the
// start is refused.
PricedResult tune_by_price(const PrimFunc& f, const Trace& start, const PricedOptions& options);

}  // namespace nestor
