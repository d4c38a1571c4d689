// Products of two operands through shared memory.
#pragma once

#include "nestor/schedule.h"

namespace nestor::library {

// Schedules a matrix product (any batch dimensions, either operand transposed) and the elementwise block that
// reads it, if `epilogue` isn't empty. False, and s as it was, where the block is no such product or is too
// small for tiles.
bool tile_product(Schedule& s, const std::string& block, const std::string& epilogue);

}  // namespace nestor::library
