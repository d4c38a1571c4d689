#pragma once

#include "nestor/ir.h"

namespace nestor {

// The function with what follows a value made in pieces done where each of them is written: the residues of a
// transposed convolution, the operands of a Concat. A map of such a value, element by element, reads what
// several nests have made, and no plan makes one tile of it all; done with each piece it is the end of that
// one's. f is as FuncBuilder makes it.
PrimFunc map_pieces(const PrimFunc& f);

}  // namespace nestor
