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

// The text of a line without its indentation; of a closing brace also that of the line it closes.
struct Key {
  std::string text;
  bool brace = false;
};
std::vector<Key> keys_of(const Lines& lines) {
  std::vector<Key> keys;
  std::vector<std::string> open;
  for (const std::string& line : lines) {
    std::string text(unindented(line));
    const bool brace = !text.empty() && text[0] == '}';
    std::string key = text;
    if (brace && !open.empty()) {
      key += " of " + open.back();
      open.pop_back();
    }
    if (!text.empty() && text.back() == '{') open.push_back(text);
    keys.push_back({std::move(key), brace});
  }
  return keys;
}

// How much it is worth to show the two as one line; 0: they are different lines. A block that moves takes its
// brace along; otherwise a brace stays where one was. Neither decides which of the other lines are paired.
int worth(const Key& a, const Key& b, bool same) {
  if (a.text == b.text) return (a.brace ? 2 : 8) + (same ? 1 : 0);
  return a.brace && same ? 1 : 0;
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
  const std::vector<Key> left = keys_of(a), right = keys_of(b);
  std::vector<std::vector<int>> best(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;) {
      const int pair = worth(left[i], right[j], a[i] == b[j]);
      best[i][j] = std::max({best[i + 1][j], best[i][j + 1], pair ? pair + best[i + 1][j + 1] : 0});
    }
  std::vector<Edit> out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const int pair = i < a.size() && j < b.size() ? worth(left[i], right[j], a[i] == b[j]) : 0;
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
