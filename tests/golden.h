// Golden tests: text cases in tests/golden/<part>/*.test, compared with what a handler makes of them.
//
//   === case split makes two loops        one file holds several cases; text before the first is comment
//   --- input                             sections: a kind, some with an argument, and lines up to the next
//   marker func f(...) { ... }
//   --- schedule
//   i0 i1 = split T.i [_, 4]
//   --- after                             what the proof compares the input with
//   --- pass simplify                     or: --- lower x86-64-v3
//   --- expect                            what the handler returns ...
//   func f(...) { ... }
//   --- expect error                      ... or the rendered nestor::Error it throws
//
// NESTOR_UPDATE=1 rewrites the expected sections (and adds missing ones) from what the handler did; review
// the diff.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nestor {

struct GoldenSection {
  std::string kind;      // "input", "schedule", "after", "pass", "lower", "expect", "expect error"
  std::string argument;  // of "pass" and "lower"
  std::string text;      // lines with their ends, without blank ones at the end
  int line = 0;          // of the marker, from 1
};

struct GoldenCase {
  std::string name, file;
  int line = 0;
  std::vector<GoldenSection> sections;  // in order: several passes run one after another
  const GoldenSection* find(const std::string& kind) const;
  std::string text(const std::string& kind) const;  // "" where there is none
};

// Makes the case's output from its other sections, or throws nestor::Error.
using GoldenHandler = std::function<std::string(const GoldenCase&)>;

std::vector<GoldenCase> parse_golden(const std::string& text, const std::string& file);
std::string print_golden(const std::string& preamble, const std::vector<GoldenCase>& cases);

// Runs every case of every .test file below the folder (relative to tests/golden), in order of path; failures
// are reported to Catch with the two texts' first difference. A folder without cases fails.
void run_golden_dir(const std::string& dir, const GoldenHandler& handler);

}  // namespace nestor
