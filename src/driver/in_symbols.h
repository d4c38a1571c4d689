// A function has sizes of its own, height_1, where the model has quotients of sizes, (height+1)/2. What is
// proved of a schedule may need that they belong together: windows of two rows stay inside of the image.
#pragma once

#include "nestor/graph.h"

namespace nestor {

// Whether a size in the call is another than one of the model's.
bool has_own_sizes(const KernelCall& call);

// f, one of the function that is called or made of it, over the model's sizes.
PrimFunc in_symbols(const PrimFunc& f, const PrimFunc& called, const KernelCall& call);

}  // namespace nestor
