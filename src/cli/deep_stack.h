#pragma once

#include <functional>

namespace nestor::cli {

// Runs f on a stack that holds the recursion over the deepest trees that are read: the compiler walks
// expressions and statements recursively, with up to some 10 KB a level, and limits their depth where they
// are made.
int on_deep_stack(const std::function<int()>& f);

}  // namespace nestor::cli
