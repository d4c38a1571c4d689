#include "golden.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "catch.h"
#include "nestor/error.h"

namespace nestor {

namespace {

constexpr std::array<const char*, 7> kKinds = {"input", "schedule",     "after", "pass",
                                               "lower", "expect error", "expect"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

bool is_expectation(const GoldenSection& s) {
  return s.kind.starts_with("expect");
}

// "pass simplify" is the kind "pass" with an argument.
GoldenSection parse_marker(const std::string& words, const std::string& where, int line) {
  for (const std::string kind : kKinds) {
    if (words == kind) return {kind, "", "", line};
    const bool takes_argument = kind == "pass" || kind == "lower";
    if (takes_argument && words.starts_with(kind + " "))
      return {kind, words.substr(kind.size() + 1), "", line};
  }
  throw std::runtime_error(where + ": unknown section `--- " + words + "`");
}

// Trailing blanks at the end of a text don't count.
std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.empty() ? text : text + "\n";
}

std::string first_difference(const std::string& expected, const std::string& actual) {
  const auto a = lines_of(expected), b = lines_of(actual);
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const auto line = [i](const std::vector<std::string>& lines) {
    return i < lines.size() ? lines[i] : "<end of text>";
  };
  return "first difference in line " + std::to_string(i + 1) + "\n  expected: " + line(a) +
         "\n  actual:   " + line(b);
}

// What the handler made: the kind of section it belongs in, and its text.
GoldenSection outcome(const GoldenCase& c, const GoldenHandler& handler) {
  try {
    return {"expect", "", trimmed(handler(c)), 0};
  } catch (const Error& e) {
    return {"expect error", "", trimmed(e.what()), 0};
  }
}

void update(GoldenCase& c, const GoldenSection& actual) {
  const auto at = std::find_if(c.sections.begin(), c.sections.end(), is_expectation);
  if (at == c.sections.end())
    c.sections.push_back(actual);
  else if (at->kind != actual.kind || at->text != actual.text)
    *at = actual;
}

void compare(const GoldenCase& c, const GoldenSection& actual) {
  const auto at = std::find_if(c.sections.begin(), c.sections.end(), is_expectation);
  INFO(c.file << ":" << c.line << ": case " << c.name << "\n(NESTOR_UPDATE=1 rewrites expectations)");
  if (at == c.sections.end()) {
    FAIL_CHECK("no `--- expect` section; the outcome was `--- " << actual.kind << "`\n" << actual.text);
  } else if (at->kind != actual.kind) {
    FAIL_CHECK("expected `--- " << at->kind << "`, the outcome was `--- " << actual.kind << "`\n"
                                << actual.text);
  } else if (at->text != actual.text) {
    FAIL_CHECK(first_difference(at->text, actual.text) << "\nthe whole outcome:\n" << actual.text);
  } else {
    SUCCEED();
  }
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

const GoldenSection* GoldenCase::find(const std::string& kind) const {
  for (const GoldenSection& s : sections)
    if (s.kind == kind) return &s;
  return nullptr;
}
std::string GoldenCase::text(const std::string& kind) const {
  const GoldenSection* s = find(kind);
  return s ? s->text : "";
}

std::vector<GoldenCase> parse_golden(const std::string& text, const std::string& file) {
  std::vector<GoldenCase> cases;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    const std::string where = file + ":" + std::to_string(++number);
    if (line.starts_with("=== case ")) {
      cases.push_back({line.substr(9), file, number, {}});
    } else if (cases.empty()) {
      if (line.starts_with("--- "))
        throw std::runtime_error(where + ": a section before the first `=== case`");
    } else if (line.starts_with("--- ")) {
      cases.back().sections.push_back(
          parse_marker(line.substr(4, line.find_last_not_of(" \r") - 3), where, number));
    } else if (!cases.back().sections.empty()) {
      cases.back().sections.back().text += line + "\n";
    } else if (!line.empty() && line[0] != '#') {
      throw std::runtime_error(where + ": text outside of a section");
    }
  }
  for (GoldenCase& c : cases)
    for (GoldenSection& section : c.sections) section.text = trimmed(section.text);
  return cases;
}

std::string print_golden(const std::string& preamble, const std::vector<GoldenCase>& cases) {
  std::string out = preamble;
  for (const GoldenCase& c : cases) {
    out += "=== case " + c.name + "\n";
    for (const GoldenSection& s : c.sections) {
      out += "--- " + s.kind + (s.argument.empty() ? "" : " " + s.argument) + "\n" + s.text;
    }
    if (&c != &cases.back()) out += "\n";
  }
  return out;
}

void run_golden_dir(const std::string& dir, const GoldenHandler& handler) {
  const std::filesystem::path root = std::filesystem::path(NESTOR_SOURCE_DIR) / "tests" / "golden" / dir;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::exists(root))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
      if (entry.path().extension() == ".test") files.push_back(entry.path());
  std::sort(files.begin(), files.end());

  const char* flag = std::getenv("NESTOR_UPDATE");
  const bool updating = flag && std::string(flag) == "1";
  size_t count = 0;
  for (const auto& path : files) {
    const std::string text = read(path);
    auto cases = parse_golden(text, "tests/golden/" + dir + "/" + path.lexically_relative(root).string());
    for (GoldenCase& c : cases) {
      const GoldenSection actual = outcome(c, handler);
      updating ? update(c, actual) : compare(c, actual);
      ++count;
    }
    if (!updating || cases.empty()) continue;
    const size_t first = text.starts_with("=== case ") ? 0 : text.find("\n=== case ") + 1;
    const std::string rewritten = print_golden(text.substr(0, first), cases);
    if (rewritten != text) std::ofstream(path, std::ios::binary) << rewritten;
  }
  if (count == 0) FAIL("no golden cases in " << root);
}

}  // namespace nestor
