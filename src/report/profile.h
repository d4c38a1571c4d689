// A model's time by function: the measured part of a run, and what bounds it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nestor/driver.h"
#include "src/report/roofline.h"

namespace nestor::report {

// All calls of a function in a run, together.
struct FunctionTime {
  std::string name;
  int func = kCopy;  // an index of the model's functions, kCopy, kCheck or another of the plan's
  std::vector<std::string> nodes;  // of each place where it is called
  double calls = 0;                // in a run: in a loop, once for each iteration
  double ns = 0;                   // the median over runs
  double flops = 0;                // as the loops run
  FunctionWork work;               // at least
  Bound bound;
  double of_bound() const { return ns > 0 ? bound.ns() / ns : 0; }  // 1: as fast as it could be
};

struct Profile {
  std::vector<FunctionTime> functions;             // the longest first
  std::vector<std::pair<int, double>> calls;       // (func, median ns), as the plan has them
  std::vector<std::pair<int64_t, double>> copies;  // (bytes, 10^9 bytes a second by all threads), by bytes
  double ns = 0;                                   // of a run, its calls added up
  double peak_gflops = 0;                          // of all threads
  int runs = 0;
};

// Calls `run`, which runs `executor` once, again and again for so many seconds (20 to 1000 times).
Profile profile(Executor& executor, const CompiledModel& model, const std::function<void()>& run,
                double seconds);

}  // namespace nestor::report
