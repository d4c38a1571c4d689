// Tensors that are computed from symbolic sizes: Shape, Gather, Concat, Mul and so on, as exporters write the
// arithmetic of shapes. Their elements are expressions, found by running the operator's own loop nest over
// expressions.
#pragma once

#include <vector>

#include "nestor/ops.h"

namespace nestor {

// Whether the shape of an input isn't known.
bool has_symbolic_input(const Graph& g, const Node& n);

// Gives the outputs of a node their elements; false where these aren't decided by sizes, or are many.
bool find_elements(Graph& g, const Node& n);

// Kernels read no elements, and models give none: nodes that write them stand in between.
void write_sizes(Graph& g);

// The outputs of a function of known extents, in order, whose inputs have these elements. Empty where some
// control flow or index depends on what isn't a number.
std::vector<std::vector<Expr>> run_over_expressions(const PrimFunc& f,
                                                    const std::vector<std::vector<Expr>>& inputs,
                                                    Symbols& symbols);

}  // namespace nestor
