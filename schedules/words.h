// Words of a step's source line, with their columns, so that an error can point at the one at fault.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nestor/schedule.h"

namespace nestor::schedules {

struct Word {
  std::string text;  // blanks normalized: "[_, 16]"
  int column = 0;    // from 1
  int length = 0;    // as written
};

// Words stand apart by blanks outside of brackets and quotes; "->" is one by itself, `#` begins a comment.
// Throws UserError where a bracket or quote is left open.
std::vector<Word> split_words(const SourceLoc& line);

Step step_from(const std::vector<Word>& words, const SourceLoc& line);  // throws UserError
// Throws UserError at a place of the line.
[[noreturn]] void fail(const SourceLoc& line, int column, int length, std::string message,
                       std::string hint = "");
// A note for each `apply` that the step came by.
void add_calls(Diagnostic& d, const Step& step);

// Where argument `i` (or with key, the option's value; with neither, the primitive's name) stands in the
// step's source.
SourceLoc loc_of_primitive(const Step& step);
SourceLoc loc_of_arg(const Step& step, size_t i);
SourceLoc loc_of_result(const Step& step, size_t i);
SourceLoc loc_of_option(const Step& step, const std::string& key);

// The parts of "[a, b]" or "(a b)": split at commas, or at blanks where there is no comma.
std::vector<std::string> list_items(const std::string& word);
bool is_identifier(std::string_view s);
std::string join(const std::vector<std::string>& items, const char* separator = " ");

}  // namespace nestor::schedules
