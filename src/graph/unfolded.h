// A graph as it was read, with nothing evaluated away.
#pragma once

#include "nestor/graph.h"

namespace nestor {

// As build_graph; but nodes whose values were found on the way (shapes, mostly) stay, beside these values.
Graph build_unfolded(const Model& model, const BuildOptions& options);

}  // namespace nestor
