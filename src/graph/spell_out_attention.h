// Attention and RotaryEmbedding in smaller operators.
#pragma once

#include <vector>

#include "nestor/graph.h"

namespace nestor {

// Whether nodes that stand for n, whose inputs and outputs have types, were appended to `nodes`.
bool spell_out_attention(Graph& g, const Node& n, std::vector<Node>& nodes);

}  // namespace nestor
