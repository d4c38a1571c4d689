// The table of primitives as a chapter of a manual, and a row of it for a terminal.
#pragma once

#include <string>

#include "schedules/primitive.h"

namespace nestor::schedules {

struct Shown {
  std::string before, after;  // printed functions
};
Shown show(const Example& example);  // runs it

std::string plain_text(const Primitive& p);  // one of them, for a terminal
std::string common_requirements_text();      // those of every step, A to G

std::string manual();  // Markdown: a table of contents, and one section per primitive, by group

}  // namespace nestor::schedules
