// Maxima and minima of vectors that are all shuffled alike.
#pragma once

#include <vector>

#include "nestor/ir.h"

namespace nestor::passes {

// R = max(R, shuffle(a, b)), R = max(R, shuffle(c, d)), of one pattern, becomes one
// R = max(R, shuffle(max(a, c), max(b, d))), where the last one stood; so with min. R is an element of a
// buffer of vectors, and a, b, c, d are constants or elements of the buffers `tiles`, which are set once and
// before they are read. As where lanes keep a maximum, what a NaN becomes is left open. Nothing happens to an
// R that anything else touches meanwhile.
void collect_terms(std::vector<Stmt>& stmts, const std::vector<BufferDecl>& tiles);

}  // namespace nestor::passes
