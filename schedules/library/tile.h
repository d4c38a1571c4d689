// The analytic choice of a register tile: which iterator becomes vector lanes, which becomes rows, and how many of each.
#pragma once

#include "nestor/target.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

struct Tile {
  const Iter* vector = nullptr;  // null: nothing can be vectorized
  const Iter* row = nullptr;     // null: one row
  int64_t width = 1;             // elements of the vector iterator in a tile: a multiple of the lanes, or its extent
  int64_t rows = 1;
  std::vector<Buffer> packed;    // constant parameters to lay out by (vector / width)
  std::vector<Buffer> copied;    // activations to copy into such a layout first
};

// Lanes of the block's output type; 1 where the target has no vectors for it.
int64_t lanes_of(const BlockInfo& b, const Target& target);

// b is a reduction. The reasoning is at the top of tile.cpp.
Tile choose_tile(const BlockInfo& b, const Target& target);

}  // namespace nestor::library
