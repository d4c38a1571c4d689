#include "nestor/error.h"

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

}  // namespace

std::string render(const Diagnostic& d) {
  std::string out;
  if (!d.loc.file.empty()) out += d.loc.file + ":";
  if (d.loc.line > 0) out += std::to_string(d.loc.line) + ":" + std::to_string(d.loc.column) + ":";
  out += (out.empty() ? "error: " : " error: ") + d.message;
  if (d.loc.line > 0 && !d.loc.text.empty()) {
    // Tabs are kept in the padding, so that the caret stands under the same column.
    std::string padding;
    for (int i = 0; i + 1 < d.loc.column && i < static_cast<int>(d.loc.text.size()); ++i)
      padding += d.loc.text[static_cast<size_t>(i)] == '\t' ? '\t' : ' ';
    out += "\n  " + d.loc.text + "\n  " + padding + "^" +
           std::string(d.loc.length > 1 ? d.loc.length - 1 : 0, '~');
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
