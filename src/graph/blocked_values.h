#pragma once

#include <set>

#include "nestor/graph.h"

namespace nestor {

// The values whose channels lie in blocks (PartitionOptions::channel_block). funcs[i] is what p.calls[i]
// calls, not yet blocked; p.funcs isn't looked at. Every function can take its part of the answer
// (block_channels).
std::set<ValueId> blocked_values(const Graph& g, const Partition& p, const std::vector<PrimFunc>& funcs,
                                 const PartitionOptions& options);

}  // namespace nestor
