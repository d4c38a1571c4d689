// Timing contestants against each other on a machine that drifts: each round runs every one of them once, in
// an order that turns, and only ratios within a round are compared.
#pragma once

#include <functional>
#include <vector>

namespace nestor::bench {

struct Interval {  // of a median, with the bounds between which it lies with 95 % confidence
  double median = 0, low = 0, high = 0;
};
// By order statistics: nothing is assumed of the distribution.
Interval median_interval(std::vector<double> samples);

// Microseconds of each contestant in each round. Calls shorter than `group` microseconds are timed in groups
// of about that. At least `least_rounds` rounds, then until `seconds` have passed.
// `warm`: for so many microseconds before each group, at least once where it isn't 0, calls aren't timed.
// They wake the contestant's threads and fetch its data: after 100 MB of others' it takes a few calls until
// those in the third-level cache are where they stay.
std::vector<std::vector<double>> time_rounds(const std::vector<std::function<void()>>& contestants,
                                             double seconds, int least_rounds = 11, double group = 50,
                                             double warm = 0);

// Of a[i] / b[i], round by round.
Interval ratio(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace nestor::bench
