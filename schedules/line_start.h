// Where in its cache line the first element is that a loop touches.
#pragma once

#include "schedules/access.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

inline constexpr int64_t kLineBytes = 64;  // of most targets' caches

// How many elements of their line lie before the first one that the loop touches of b, in [0, elements a
// line): an expression over loops around it, if b begins at a line. What is missing where there is no such
// expression.
struct LineStart {
  Expr before;
  std::string why;
};
LineStart line_start(const PrimFunc& f, const LoopRef& loop, const Buffer& b);

}  // namespace nestor::schedules
