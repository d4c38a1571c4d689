// Nodes of a graph in an order in which every value is made before it is read, by branches and bodies too.
#pragma once

#include "nestor/graph.h"
#include "src/graph/problems.h"

namespace nestor {

// Indices of the nodes; among those that are ready the file's order is kept. Nodes on a cycle, or
// behind one, are left out, and the cycle is a problem.
std::vector<int> sort_nodes(const std::vector<ModelNode>& nodes, Problems& problems);

}  // namespace nestor
