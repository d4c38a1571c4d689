// An Einsum's equation: a letter for each dimension of each operand and of the result.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nestor/ops.h"

namespace nestor::ops {

struct Einsum {
  std::vector<std::string>
      operands;  // a letter for each dimension; dimensions under `...` are digits, '0' the last
  std::string result;
  std::map<char, Dim> extents;

  Dims shape() const;          // of the result
  std::string summed() const;  // letters that the result doesn't have, in the order in which they come
};

// Fails where the node's equation isn't one, or doesn't fit its inputs.
Einsum parse_einsum(const OpContext& ctx);

}  // namespace nestor::ops
