#include "src/cli/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace nestor::cli {

double Timing::quantile(double q) const {
  if (samples_ms.empty()) return 0;
  std::vector<double> sorted = samples_ms;
  std::sort(sorted.begin(), sorted.end());
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - std::floor(at)) * (sorted[high] - sorted[low]);
}

double Timing::median() const {
  return quantile(0.5);
}

std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& functions, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  constexpr double kUncountedMs = 0.4, kTurnMs = 3;  // a pool's threads linger for 0.2 ms (runtime/pace_rt.h)
  constexpr size_t kMostSamples = 100000;
  // Short calls are timed in groups of about 50 us, so that the clock's own cost vanishes.
  std::vector<int> group;
  for (const auto& f : functions) {
    f();
    const auto start = Clock::now();
    f();
    group.push_back(std::clamp(static_cast<int>(0.05 / std::max(ms(Clock::now() - start), 1e-5)), 1, 1000));
  }
  std::vector<Timing> out(functions.size());
  const double budget = seconds * 1e3 * static_cast<double>(functions.size());
  const auto begin = Clock::now();
  for (int round = 0; round < 5 || ms(Clock::now() - begin) < budget; ++round) {
    for (size_t i = 0; i < functions.size(); ++i) {
      const auto turn = Clock::now();
      do functions[i]();
      while (ms(Clock::now() - turn) < kUncountedMs);
      const auto counted = Clock::now();
      do {
        const auto start = Clock::now();
        for (int k = 0; k < group[i]; ++k) functions[i]();
        out[i].samples_ms.push_back(ms(Clock::now() - start) / group[i]);
      } while (ms(Clock::now() - counted) < kTurnMs && out[i].samples_ms.size() < kMostSamples);
    }
  }
  return out;
}

}  // namespace nestor::cli
