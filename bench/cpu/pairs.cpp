#include "bench/cpu/pairs.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace nestor::bench {

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

}  // namespace

Interval median_interval(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  // The number of samples below the median is binomial: n/2 +- 1.96 * sqrt(n)/2.
  const double half = 0.98 * std::sqrt(n);
  const auto at = [&](double rank) { return samples[static_cast<size_t>(std::clamp(rank, 0.0, n - 1))]; };
  return {at((n - 1) / 2), at(std::floor((n - 1) / 2 - half)), at(std::ceil((n - 1) / 2 + half))};
}

std::vector<std::vector<double>> time_rounds(const std::vector<std::function<void()>>& contestants,
                                             double seconds, int least_rounds, double group, double warm) {
  std::vector<int> calls;
  for (const auto& f : contestants) {
    f();
    const auto start = Clock::now();
    f();
    calls.push_back(std::clamp(static_cast<int>(group / std::max(microseconds(start), 0.01)), 1, 1000));
  }
  std::vector<std::vector<double>> out(contestants.size());
  const auto begin = Clock::now();
  for (int round = 0; round < least_rounds || microseconds(begin) < seconds * 1e6; ++round)
    for (size_t k = 0; k < contestants.size(); ++k) {
      const size_t i = (k + static_cast<size_t>(round)) % contestants.size();
      for (const auto from = Clock::now(); warm > 0;) {
        contestants[i]();
        if (microseconds(from) >= warm) break;
      }
      const auto start = Clock::now();
      for (int c = 0; c < calls[i]; ++c) contestants[i]();
      out[i].push_back(microseconds(start) / calls[i]);
    }
  return out;
}

Interval ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> quotients;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) quotients.push_back(a[i] / b[i]);
  return median_interval(std::move(quotients));
}

}  // namespace nestor::bench
