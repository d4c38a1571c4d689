// Nodes that reorder, before and behind functions that work by channels on row-major images.
#pragma once

#include <set>

#include "nestor/graph.h"

namespace nestor {

// Read and written in a cycle of one core, where the third level is near.
constexpr double kBytesReordered = 8;

// What a function reads and makes by channels: the operand of each node that makes one of `chosen`, and what
// is of its result's shape.
std::set<ValueId> images_of(const Graph& g, const KernelCall& call, const std::set<ValueId>& chosen);

// The graph with a Reorder before and behind the functions whose nodes make `chosen`, where they read or make
// row-major values, but for those in `kept`: what stands between may then lie in blocks of channels.
Graph with_reorders(const Graph& g, const Partition& p, const std::set<ValueId>& chosen,
                    const std::set<ValueId>& kept = {});

// The graph with a Reorder before and behind the functions whose nodes make `chosen`, where they read or make
// values in blocks of channels: what stands between is row major.
Graph with_rows(const Graph& g, const Partition& p, const std::set<ValueId>& chosen);

}  // namespace nestor
