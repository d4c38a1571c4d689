// Nodes whose output 0 has the bytes of input 0: only the shape changes, if anything.
#pragma once

#include "nestor/graph.h"

namespace nestor {

// Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout without a mask; Transpose that only moves
// dimensions of 1; Cast to the same type, Expand to the same shape; Concat and Sum of one input.
bool is_view(const Graph& g, const Node& n);

// A view that keeps the shape too: the output is the input.
bool is_identity(const Graph& g, const Node& n);

}  // namespace nestor
