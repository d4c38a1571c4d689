#include "nestor/error.h"

#include <algorithm>

namespace nestor {

namespace {

void append_indented(std::string& out, const char* label, const std::string& text) {
  out += "\n";
  out += label;
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
}

// The part of a long line that is around what is underlined.
SourceLoc shown(SourceLoc at) {
  constexpr int kMost = 240, kBefore = 80;
  const int size = static_cast<int>(at.text.size());
  if (size <= kMost) return at;
  const int first = std::max(0, std::min(at.column - 1 - kBefore, size - kMost));
  at.text = at.text.substr(static_cast<size_t>(first), kMost);
  at.column -= first;
  at.length = std::min(at.length, kMost - at.column + 1);
  return at;
}

}  // namespace

std::string render(const Diagnostic& d) {
  std::string out;
  if (!d.loc.file.empty()) out += d.loc.file + ":";
  if (d.loc.line > 0) out += std::to_string(d.loc.line) + ":" + std::to_string(d.loc.column) + ":";
  out += (out.empty() ? "error: " : " error: ") + d.message;
  if (d.loc.line > 0 && !d.loc.text.empty()) {
    const SourceLoc at = shown(d.loc);
    // Tabs are kept in the padding, so that the caret stands under the same column.
    std::string padding;
    for (int i = 0; i + 1 < at.column && i < static_cast<int>(at.text.size()); ++i)
      padding += at.text[static_cast<size_t>(i)] == '\t' ? '\t' : ' ';
    out += "\n  " + at.text + "\n  " + padding + "^" + std::string(at.length > 1 ? at.length - 1 : 0, '~');
  }
  for (const std::string& note : d.notes) append_indented(out, "note: ", note);
  if (!d.hint.empty()) append_indented(out, "hint: ", d.hint);
  return out;
}

namespace detail {

CheckFailure::CheckFailure(const char* condition, const char* file, int line) {
  stream_ << "internal error at " << file << ":" << line << ": `" << condition << "` does not hold: ";
}

CheckFailure::~CheckFailure() noexcept(false) {
  throw InternalError(stream_.str());
}

}  // namespace detail

}  // namespace nestor
