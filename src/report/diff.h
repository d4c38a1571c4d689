// A line diff that shows what a step changed. A line whose indentation alone changed has a mark of its own,
// so that a loop put around a block shows as one new loop.
#pragma once

#include <string>
#include <vector>

namespace nestor::report {

using Lines = std::vector<std::string>;
Lines split_lines(const std::string& text);

struct Edit {
  char mark;         // ' ' as before, '+' new, '-' gone, '~' the same text at another indentation
  std::string line;  // of the new text; of the old one where it is gone
};
std::vector<Edit> diff(const Lines& before, const Lines& after);

// The edits as text, each line behind its mark and a space, long unchanged stretches cut. Coloured if asked.
std::string show_diff(const std::vector<Edit>& edits, bool color);

}  // namespace nestor::report
