// Sizes of buffers in memory: what a layout makes of a logical shape.
#pragma once

#include <cstdint>
#include <vector>

#include "nestor/ir.h"
#include "nestor/tensor.h"

namespace nestor {

// The declared shape; UserError where it isn't constant.
std::vector<int64_t> logical_shape(const BufferDecl& decl);

// The extent of each physical dimension (the shape itself without a layout). `x % m` always spans m elements,
// so that a blocked dimension is padded to whole blocks: (c) -> (c/16, c%16) of 10 channels is [1,16]. Shapes
// must be constant (UserError), and a layout's expressions made of + - * / % over its variables, with
// constant divisors.
std::vector<int64_t> physical_shape(const BufferDecl& decl);
// The same where sizes may be symbolic.
std::vector<Expr> physical_extents(const BufferDecl& decl);
int64_t physical_size(const BufferDecl& decl);  // elements, padding included

// A logical tensor in the physical order of `decl`, shaped physical_shape(decl), and back. Elements that no
// logical index reaches hold the layout's pad.
Tensor pack(const Tensor& logical, const BufferDecl& decl);
Tensor unpack(const Tensor& physical, const BufferDecl& decl);

// A tensor whose channels, dimension 1, lie in blocks: (n, c, ...) as (n, c/block, ..., c%block).
BufferDecl in_channel_blocks(DType dtype, const std::vector<int64_t>& shape, int64_t block);

}  // namespace nestor
