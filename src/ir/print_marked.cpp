// Prints the function with nodes underlined, as error notes show it. Long functions are cut to the marked
// lines, two lines around each, and the headers of the loops around them.
#include <algorithm>
#include <map>
#include <sstream>

#include "src/ir/printer.h"

namespace nestor {

namespace {

constexpr size_t kWholeFunction = 24;  // lines; up to here nothing is cut
constexpr size_t kContext = 2;         // lines kept before and after a marked one

size_t indentation(const std::string& line) {
  const size_t at = line.find_first_not_of(' ');
  return at == std::string::npos ? line.size() : at;
}

std::string underline(const std::vector<Span>& spans) {
  std::string out;
  for (const Span& s : spans) {
    const auto from = static_cast<size_t>(s.column - 1), length = static_cast<size_t>(std::max(s.length, 1));
    if (out.size() < from + length) out.resize(from + length, ' ');
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(from), length, '~');
  }
  for (const Span& s : spans) out[static_cast<size_t>(s.column - 1)] = '^';
  return out;
}

std::vector<bool> lines_to_keep(const std::vector<std::string>& lines,
                                const std::map<size_t, std::vector<Span>>& marks) {
  std::vector<bool> keep(lines.size(), lines.size() <= kWholeFunction || marks.empty());
  for (const auto& [line, spans] : marks) {
    for (size_t i = line - std::min(line, kContext); i <= std::min(line + kContext, lines.size() - 1); ++i)
      keep[i] = true;
    size_t depth = indentation(lines[line]);
    for (size_t i = line; i-- > 0;)
      if (indentation(lines[i]) < depth) {
        keep[i] = true;
        depth = indentation(lines[i]);
      }
  }
  return keep;
}

}  // namespace

std::string print_marked(const PrimFunc& f, const std::vector<const void*>& marked) {
  const Printed printed = print_with_spans(f);
  std::vector<std::string> lines;
  std::istringstream stream(printed.text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);

  std::map<size_t, std::vector<Span>> marks;  // by line, from 0
  for (const void* node : marked)
    if (const auto it = printed.spans.find(node); it != printed.spans.end())
      marks[static_cast<size_t>(it->second.line - 1)].push_back(it->second);

  const std::vector<bool> keep = lines_to_keep(lines, marks);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!keep[i]) {
      if (i > 0 && keep[i - 1]) out += std::string(indentation(lines[i]), ' ') + "...\n";
      continue;
    }
    out += lines[i] + "\n";
    if (const auto it = marks.find(i); it != marks.end()) out += underline(it->second) + "\n";
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace nestor
