// Timing of several things side by side: one call of each in turn, so that drift of the machine hits all
// alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nestor::cli {

// With the unit that fits: "812.4 ns", "3.25 us", "17.801 ms", "2.31 s".
std::string time_text(double ms);

struct Timing {
  std::vector<double> samples_ms;
  double median() const;
  double quantile(double q) const;
};

// Runs each function in turn, round after round, for about `seconds` per function (at least 5 rounds).
std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& functions, double seconds);

}  // namespace nestor::cli
