// The element type and shape of a tensor.
#pragma once

#include <string>
#include <vector>

#include "nestor/tensor.h"

namespace nestor {

struct TensorType {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool operator==(const TensorType&) const = default;
};
inline std::string to_string(const TensorType& t) {
  return to_string(t.dtype, t.shape);
}

}  // namespace nestor
