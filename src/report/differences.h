// Describes in words how two schedules of a function differ: block by block, by where the function's blocks
// are in the two scheduled nests, independent of the steps that put them there.
#pragma once

#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor::report {

struct Difference {
  std::string of;    // a block, or a buffer
  std::string what;  // "lanes", "written out", "loops" ...
  std::string before, after;
};
// `func` is what both were made from: its blocks are compared, and its loops name their iterators.
std::vector<Difference> differences(const PrimFunc& func, const PrimFunc& before, const PrimFunc& after);

}  // namespace nestor::report
