// Operators that stand for many smaller ones, and are read as these.
#pragma once

#include <vector>

#include "nestor/graph.h"

namespace nestor {

// Whether nodes that stand for n, whose inputs and outputs have types, were appended to `nodes`.
bool spell_out_attention(Graph& g, const Node& n, std::vector<Node>& nodes);
bool spell_out_batch_norm(Graph& g, const Node& n, std::vector<Node>& nodes);
bool spell_out_max_pool(Graph& g, const Node& n, std::vector<Node>& nodes);
bool spell_out_recurrent(Graph& g, const Node& n, std::vector<Node>& nodes, bool loops);
bool spell_out_top_k(Graph& g, const Node& n, std::vector<Node>& nodes, bool loops);
// A Concat without operands that have no elements.
bool drop_empty_parts(const Graph& g, const Node& n, std::vector<Node>& nodes);
bool spell_out_wide(Graph& g, const Node& n, std::vector<Node>& nodes);

}  // namespace nestor
