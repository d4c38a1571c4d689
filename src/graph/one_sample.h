// What is needed to compile a function of any number of samples as a loop over the function of one: whether
// each sample is computed by itself, and the graph of one sample.
#pragma once

#include <optional>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

// Where every sample is computed from the same sample of the inputs alone, `samples` being their number:
// which parameters have samples, as dimension 0. f is as the operators built it, no dimensions merged.
std::optional<std::vector<bool>> sampled_params(const PrimFunc& f, const Var& samples);

// The graph with `size` for a symbol. Its values and nodes are those of g, one by one.
Graph with_size(const Graph& g, const Var& symbol, int64_t size);

// Finds Partition::one_sample of a partition whose layouts are decided (partition.cpp). Functions may get
// dimensions that only those of one sample have.
void add_one_samples(const Graph& g, Partition& p, const PartitionOptions& options);

}  // namespace nestor
