#include "src/report/diff.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace nestor::report {

namespace {

std::string_view unindented(const std::string& line) {
  const size_t at = line.find_first_not_of(' ');
  return at == std::string::npos ? std::string_view() : std::string_view(line).substr(at);
}

// How much it is worth to show the two as one line; 0: they are different lines. A brace says little, so that
// it never decides which of the other lines are paired.
int worth(const std::string& a, const std::string& b) {
  if (unindented(a) != unindented(b)) return 0;
  const int line = unindented(a).size() > 1 ? 8 : 2;
  return a == b ? line + 1 : line;
}

}  // namespace

Lines split_lines(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The classic longest common subsequence, weighted; functions have at most some hundred lines.
std::vector<Edit> diff(const Lines& a, const Lines& b) {
  std::vector<std::vector<int>> best(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;) {
      const int pair = worth(a[i], b[j]);
      best[i][j] = std::max({best[i + 1][j], best[i][j + 1], pair ? pair + best[i + 1][j + 1] : 0});
    }
  std::vector<Edit> out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const int pair = i < a.size() && j < b.size() ? worth(a[i], b[j]) : 0;
    if (pair && best[i][j] == pair + best[i + 1][j + 1]) {
      out.push_back({a[i] == b[j] ? ' ' : '~', b[j]});
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || best[i + 1][j] >= best[i][j + 1])) {
      out.push_back({'-', a[i++]});
    } else {
      out.push_back({'+', b[j++]});
    }
  }
  return out;
}

std::string show_diff(const std::vector<Edit>& edits, bool color) {
  constexpr size_t kContext = 3;
  std::vector<bool> shown(edits.size(), false);
  for (size_t i = 0; i < edits.size(); ++i)
    if (edits[i].mark != ' ')
      for (size_t k = i < kContext ? 0 : i - kContext; k < std::min(edits.size(), i + kContext + 1); ++k)
        shown[k] = true;
  const auto start = [&](char mark) {
    return !color ? "" : mark == '+' ? "\033[32m" : mark == '-' ? "\033[31m" : mark == '~' ? "\033[33m" : "";
  };
  std::string out;
  for (size_t i = 0; i < edits.size(); ++i) {
    if (!shown[i]) {
      if (i == 0 || shown[i - 1]) out += "    ...\n";
      continue;
    }
    const std::string begin = start(edits[i].mark);
    out += begin + edits[i].mark + " " + edits[i].line + (begin.empty() ? "" : "\033[0m") + "\n";
  }
  return out;
}

}  // namespace nestor::report
