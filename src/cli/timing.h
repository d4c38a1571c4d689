// Timing of several things side by side, in turns, so that drift of the machine hits all alike. Each is timed
// as the tuner times it, while it runs again and again: a turn begins with calls that don't count, which
// bring back its data and wake its threads, while those of the one before go to sleep.
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
