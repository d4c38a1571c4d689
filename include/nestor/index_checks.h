// Indices that are known only at run time, checked before they are used.
#pragma once

#include <string>

#include "nestor/graph.h"

namespace nestor {

// Puts a node CheckIndices before each node that picks elements by such indices: Gather, Scatter and their
// kin. After all passes: nothing reads what it makes, but whoever runs the graph.
void add_index_checks(Graph& g);

bool is_index_check(const Node& n);
std::string found_by(const Node& check);  // what it means where it gives 1

}  // namespace nestor
