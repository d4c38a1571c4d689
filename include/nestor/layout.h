// Sizes of buffers in memory: what a layout makes of a logical shape.
#pragma once

#include <cstdint>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

// The extent of each physical dimension (the shape itself without a layout). `x % m` always spans m elements,
// so that a blocked dimension is padded to whole blocks: (c) -> (c/16, c%16) of 10 channels is [1,16]. Shapes
// must be constant (UserError), and a layout's expressions made of + - * / % over its variables, with
// constant divisors.
std::vector<int64_t> physical_shape(const BufferDecl& decl);
int64_t physical_size(const BufferDecl& decl);  // elements, padding included

}  // namespace nestor
