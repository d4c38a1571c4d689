// What one access of a warp moves: sectors of device memory, passes through shared memory.
#pragma once

#include <optional>
#include <unordered_map>

#include "nestor/ir.h"

namespace nestor::cost {

using Values = std::unordered_map<Var, int64_t>;

// An index expression at these values; nothing where it holds what isn't known (data).
std::optional<int64_t> value_of(const Expr& e, const Values& at);

struct Moved {
  double actual = 0, ideal = 0;
};
// `index` is a flat one, a ramp where a thread accesses several neighbours; `lanes` has the values of each
// thread.
Moved sectors_of(const Expr& index, int element_bytes, const std::vector<Values>& lanes);
Moved wavefronts_of(const Expr& index, int element_bytes, const std::vector<Values>& lanes);

}  // namespace nestor::cost
