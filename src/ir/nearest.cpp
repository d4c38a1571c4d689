// Optimal string alignment distance (Damerau-Levenshtein without repeated edits): three rows of the table are
// enough.
#include "nestor/nearest.h"

#include <algorithm>
#include <cctype>

namespace nestor {

int edit_distance(std::string_view a, std::string_view b) {
  const auto at = [](std::string_view s, size_t i) { return std::tolower(static_cast<unsigned char>(s[i])); };
  std::vector<int> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replace = last[j - 1] + (at(a, i - 1) != at(b, j - 1));
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && at(a, i - 1) == at(b, j - 2) && at(a, i - 2) == at(b, j - 1);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(last);
    last = row;
  }
  return last[b.size()];
}

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& candidates) {
  const int allowed = std::max(1, static_cast<int>(name.size()) / 3);
  std::vector<std::pair<int, std::string>> near;
  for (const std::string& candidate : candidates) {
    const int d = edit_distance(name, candidate);
    const bool all_differ = d >= static_cast<int>(std::max(name.size(), candidate.size()));
    if (d <= allowed && !all_differ) near.emplace_back(d, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (auto& [distance, candidate] : near) out.push_back(std::move(candidate));
  return out;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = near_names(name, candidates);
  return near.empty() ? "" : near[0];
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string near = nearest_name(name, candidates);
  return near.empty() ? "" : "did you mean `" + near + "`?";
}

}  // namespace nestor
