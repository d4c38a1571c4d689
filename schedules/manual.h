// The table of primitives as a chapter of a manual.
#pragma once

#include <string>

#include "schedules/primitive.h"

namespace nestor::schedules {

struct Shown {
  std::string before, after;  // printed functions
};
Shown show(const Example& example);  // runs it

std::string manual();  // Markdown, one section per primitive in the order of the table

}  // namespace nestor::schedules
