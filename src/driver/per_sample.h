// A function of one open size, the number of samples, as a loop over the function of one sample. What is in
// the loop is scheduled with all sizes known, so a run of one sample takes what it takes with a fixed size.
#pragma once

#include <optional>

#include "nestor/ir.h"

namespace nestor {

// The function of one sample, where f has one open size and each sample is computed from the same sample of
// the inputs alone; and where the weights, which are then read again for each sample, are used often enough.
std::optional<PrimFunc> one_sample(const PrimFunc& f);

// `lowered`, made of one_sample(f), in a loop over the samples.
PrimFunc over_samples(const PrimFunc& f, const PrimFunc& lowered);

}  // namespace nestor
