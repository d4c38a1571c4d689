#include "src/cli/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace nestor::cli {

std::string time_text(double ms) {
  if (ms < 1e-3) return fmt::format("{:.1f} ns", ms * 1e6);
  if (ms < 1) return fmt::format("{:.2f} us", ms * 1e3);
  if (ms < 1e3) return fmt::format("{:.3f} ms", ms);
  return fmt::format("{:.2f} s", ms / 1e3);
}

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
  for (int round = 0; round < 5 || (ms(Clock::now() - begin) < budget && round < 100000); ++round) {
    for (size_t i = 0; i < functions.size(); ++i) {
      const auto start = Clock::now();
      for (int k = 0; k < group[i]; ++k) functions[i]();
      out[i].samples_ms.push_back(ms(Clock::now() - start) / group[i]);
    }
  }
  return out;
}

}  // namespace nestor::cli
