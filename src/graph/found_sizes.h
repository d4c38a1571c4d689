// Sizes that values decide: how many elements aren't 0, how many boxes are kept. A node of nestor.FoundSize
// takes the count, which others compute, and the most that it may be. From there on the count is a symbol, as
// the sizes of inputs are, and what has that size reads no value of the node: it has to come behind it.
#pragma once

#include <string>

#include "nestor/graph.h"

namespace nestor {

// In BuildOptions::open: all integers that the model needs as sizes and that have no bounds of their own.
inline constexpr const char* kAllFoundSizes = "*";

bool is_found_size(const Node& n);
const std::string& symbol_found_by(const Node& n);

// Whether operators of the model, or of its branches and bodies, find sizes where they don't know the values.
bool may_find_sizes(const ModelGraph& g);

// Whether bodies of the graph's nodes, or theirs, find sizes.
bool bodies_find_sizes(const Graph& g);

// Whether the graph, or a body, finds the size of that name.
bool finds_size(const Graph& g, const std::string& name);

// Whether the shape has sizes that nodes of this graph find.
bool depends_on_found(const Graph& g, const Dims& shape);

// In an order in which each node stands behind those that find the sizes of what it reads and makes.
void order_found_sizes(Graph& g);

}  // namespace nestor
