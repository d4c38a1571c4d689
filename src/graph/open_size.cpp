#include <charconv>

#include "nestor/graph.h"

namespace nestor {

namespace {

// The number that the text is; false where it is none.
bool read_number(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<OpenSize> parse_open_size(const std::string& what, const std::string& text) {
  OpenSize out{.least = 0};
  const size_t usual = text.find('~');
  const std::string_view range = std::string_view(text).substr(0, usual);
  const size_t dots = range.find("..");
  if (dots == std::string::npos && usual == std::string::npos) return std::nullopt;
  bool good = dots != std::string::npos || range.empty();
  if (usual != std::string::npos)
    good = good && read_number(std::string_view(text).substr(usual + 1), out.typical);
  if (good && dots != std::string::npos) {
    if (dots > 0) good = read_number(range.substr(0, dots), out.least);
    if (good && dots + 2 < range.size()) good = read_number(range.substr(dots + 2), out.most);
  }
  const bool ordered =
      out.least >= 0 && out.least <= out.most && out.most <= Symbols::kMost && out.typical >= 0;
  if (good && ordered &&
      (usual == std::string::npos || (out.typical >= out.least && out.typical <= out.most)))
    return out;
  throw UserError(Diagnostic{what + " is \"" + text + "\", which says no sizes",
                             {},
                             {},
                             "1..64~16 is from 1 to 64, usually 16; each part may be left out"});
}

}  // namespace nestor
