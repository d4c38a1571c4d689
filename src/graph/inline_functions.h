#pragma once

#include "nestor/graph.h"

namespace nestor {

// The model with the nodes of its own functions in place of their calls, in branches and bodies too.
// UserError where a function calls itself, or where that gives too many nodes.
Model inline_functions(const Model& m);

}  // namespace nestor
