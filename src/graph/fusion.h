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
Fusion fuse(const Graph& g, bool together = true);  // not together: each node alone

}  // namespace nestor
