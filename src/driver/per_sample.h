// A function of as many samples as a run decides, as a loop over the function of one sample. What is in the
// loop is scheduled with fewer sizes open, or none: then a run of one sample takes what it takes with a fixed
// size.
#pragma once

#include "nestor/graph.h"

namespace nestor {

// Whether the weights, which are read again for each sample, are used often enough, or stay near. Those of a
// product of rows (open_rows.h) are better shared by them, unless all sizes of a sample are known.
bool pays_by_sample(const OneSample& one, const std::unordered_map<Var, int64_t>& typical, bool product);

// `lowered`, made of the function of one sample, in a loop over the samples of f.
PrimFunc over_samples(const PrimFunc& f, const OneSample& one, const PrimFunc& lowered);

}  // namespace nestor
