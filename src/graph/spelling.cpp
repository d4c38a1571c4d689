#include "src/graph/spelling.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace nestor {

namespace {

// Levenshtein distance, case ignored.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const bool same =
          std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j]));
      const size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string closest(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = name.size() / 3 + 2;  // further than that is another name
  for (const std::string& c : candidates)
    if (const size_t d = distance(name, c); d < best_distance && d < std::max(name.size(), c.size())) {
      best = c;
      best_distance = d;
    }
  return best;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string best = closest(name, candidates);
  return best.empty() ? "" : "did you mean `" + best + "`?";
}

}  // namespace nestor
