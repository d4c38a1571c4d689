// Draws the progress of a search.
#pragma once

#include <string>
#include <vector>

namespace nestor::report {

// An inline SVG: the time of each candidate in the order measured (0: it failed), the best so far as a line,
// the default and the bound as levels, where they are known (0: not). Times are on a logarithmic scale. Empty
// where there are fewer than two candidates.
std::string curve(const std::vector<double>& trials_ns, double default_ns, double bound_ns);

}  // namespace nestor::report
