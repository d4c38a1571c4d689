// The passes that src/passes/pipeline.cpp strings together, one file each.
#pragma once

#include "nestor/passes.h"

namespace nestor::passes {

PrimFunc compact(const PrimFunc& f, const Target& target);
PrimFunc lower_init(const PrimFunc& f, const Target& target);
PrimFunc lower_blocks(const PrimFunc& f, const Target& target);
PrimFunc lower_updates(const PrimFunc& f, const Target& target);
PrimFunc flatten_buffers(const PrimFunc& f, const Target& target);

}  // namespace nestor::passes
