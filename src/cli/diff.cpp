#include "src/cli/diff.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace nestor::cli {

namespace {

using Lines = std::vector<std::string>;

Lines split(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Edit {
  char mark;  // ' ', '+', '-'
  std::string line;
};

// The classic longest common subsequence; functions have at most some hundred lines.
std::vector<Edit> edits(const Lines& a, const Lines& b) {
  std::vector<std::vector<int>> length(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;)
      length[i][j] = a[i] == b[j] ? length[i + 1][j + 1] + 1 : std::max(length[i + 1][j], length[i][j + 1]);
  std::vector<Edit> out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out.push_back({' ', b[j++]});
      ++i;
    } else if (i < a.size() && (j == b.size() || length[i + 1][j] >= length[i][j + 1])) {
      out.push_back({'-', a[i++]});
    } else {
      out.push_back({'+', b[j++]});
    }
  }
  return out;
}

}  // namespace

std::string diff_lines(const std::string& before, const std::string& after, bool color) {
  constexpr int kContext = 3;
  const std::vector<Edit> all = edits(split(before), split(after));
  const auto near_change = [&](size_t at) {
    const size_t from = at < kContext ? 0 : at - kContext, to = std::min(all.size(), at + kContext + 1);
    return std::any_of(all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(to),
                       [](const Edit& e) { return e.mark != ' '; });
  };
  std::string out;
  bool cut = false;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!near_change(i)) {
      if (!cut) out += "    ...\n";
      cut = true;
      continue;
    }
    cut = false;
    const char* start = !color ? "" : all[i].mark == '+' ? "\033[32m" : all[i].mark == '-' ? "\033[31m" : "";
    out += std::string(start) + all[i].mark + " " + all[i].line + (*start ? "\033[0m" : "") + "\n";
  }
  return out;
}

}  // namespace nestor::cli
