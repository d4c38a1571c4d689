#include "src/graph/tensor_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/limits.h"

namespace nestor {

// A dimension of 0 counts as 1, so that no product of the others overflows either.
std::string refusal_of(const TensorType& t) {
  if (t.shape.size() > kMostDims)
    return fmt::format("has {} dimensions; at most {} are supported", t.shape.size(), kMostDims);
  int64_t bytes = bytes_of(t.dtype);
  bool overflow = false;
  for (const Dim& d : t.shape) {
    if (d < 0) return fmt::format("has the negative dimension {}", to_string(d));
    // What symbols add up to is checked when the model runs.
    overflow |=
        __builtin_mul_overflow(bytes, std::max<int64_t>(d.known() ? static_cast<int64_t>(d) : 1, 1), &bytes);
  }
  return overflow || bytes > kMostBytes ? "is too large: " + to_string(t) : "";
}

}  // namespace nestor
