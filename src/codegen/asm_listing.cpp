// Makes an assembler listing readable: labels and instructions only, without debug sections and directives.
// The .loc directives give a line number for each instruction.
#include <cctype>
#include <cstdlib>

#include "nestor/codegen.h"

namespace nestor {

namespace {

// Not an indented line: LLVM writes labels at the margin.
bool is_label(const std::string& line) {
  return !line.empty() && line[0] != '\t' && line[0] != ' ' && line[0] != '#';
}

std::string without_comment(const std::string& line, char comment) {
  const size_t at = line.find(comment);
  const size_t end = line.find_last_not_of(" \t", at == std::string::npos ? line.size() : at ? at - 1 : 0);
  return at == 0 || end == std::string::npos ? "" : line.substr(0, end + 1);
}

}  // namespace

std::vector<CodeLine> parse_asm(const std::string& assembly, const Target& target) {
  const char comment = target.arch() == "aarch64" ? '/' : '#';
  std::vector<CodeLine> out;
  int line = 0;
  bool code = true;
  for (size_t from = 0; from < assembly.size();) {
    const size_t end = std::min(assembly.find('\n', from), assembly.size());
    const std::string raw = assembly.substr(from, end - from), text = without_comment(raw, comment);
    from = end + 1;
    const size_t first = text.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    const std::string rest = text.substr(first);
    if (rest.rfind(".loc", 0) == 0 && std::isspace(static_cast<unsigned char>(rest[4]))) {
      char* next = nullptr;
      std::strtol(rest.c_str() + 4, &next, 10);  // the file
      line = static_cast<int>(std::strtol(next, nullptr, 10));
    } else if (rest == ".text" || rest.rfind(".section", 0) == 0) {
      code = rest.find(".debug") == std::string::npos;
    } else if (code && is_label(text)) {
      if (rest.rfind(".Ltmp", 0) && rest.rfind(".Lfunc_", 0)) out.push_back({text, 0});
      if (rest[0] != '.') line = 0;
    } else if (code && rest[0] != '.') {
      out.push_back({text, line});
    }
  }
  return out;
}

}  // namespace nestor
