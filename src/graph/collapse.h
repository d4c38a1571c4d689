#pragma once

#include "nestor/ir.h"

namespace nestor {

// The function with adjacent dimensions merged wherever all its blocks walk them together: [1,64,56,56]
// becomes [200704] for a chain of elementwise blocks, [1,64,3136] around a 1x1 convolution. The bytes of
// every parameter stay the same, the loop nests get simpler and their inner loops longer. Names of merged
// loops are joined ("y" and "x" give "yx"). f is as FuncBuilder makes it: every block alone in its loops,
// iterators bound to them one to one.
PrimFunc collapse_dims(const PrimFunc& f);

}  // namespace nestor
