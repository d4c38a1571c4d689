// Times several things in turns, so that changes of the machine's speed affect all alike. Each is timed as
// the tuner does, while it runs repeatedly: a turn begins with calls that aren't counted. They load its data
// into the caches and wake its threads, while the threads of the one before go to sleep.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/report/time_text.h"

namespace nestor::cli {

using report::time_text;

struct Timing {
  std::vector<double> samples_ms;
  double median() const;
  double quantile(double q) const;
};

// A turn of each function, round after round, for about `seconds` per function (at least 5 rounds).
std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& functions, double seconds);

}  // namespace nestor::cli
