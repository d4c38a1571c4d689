// Nodes of a model in an order in which every value is made before it is read.
#pragma once

#include "nestor/graph.h"
#include "src/graph/problems.h"

namespace nestor {

// Indices of the model's nodes; among those that are ready the file's order is kept. Nodes on a cycle, or
// behind one, are left out, and the cycle is a problem.
std::vector<int> sort_nodes(const Model& m, Problems& problems);

}  // namespace nestor
