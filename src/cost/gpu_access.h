// What one access of a warp moves: sectors of device memory, passes through shared memory.
#pragma once

#include <vector>

#include "nestor/ir.h"
#include "nestor/value_of.h"

namespace nestor::cost {

struct Moved {
  double actual = 0, ideal = 0;
};
// `index` is a flat one, a ramp where a thread accesses several neighbours; `lanes` has the values of each
// thread.
Moved sectors_of(const Expr& index, int element_bytes, const std::vector<Values>& lanes);
Moved wavefronts_of(const Expr& index, int element_bytes, const std::vector<Values>& lanes);

}  // namespace nestor::cost
