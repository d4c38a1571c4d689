// Which nodes share a function.
#pragma once

#include <vector>

#include "nestor/graph.h"

namespace nestor {

struct Fusion {
  std::vector<std::vector<int>>
      groups;              // node indices, ascending; ordered by their last node, which is what runs last
  std::vector<int> views;  // nodes that need no code: their output is their input (views.h)
};
// Not together: each node alone. With `products`, two of them and the Softmax between share a function.
Fusion fuse(const Graph& g, bool together = true, bool products = false);

}  // namespace nestor
