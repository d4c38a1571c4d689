// A tile's sum by parts of the reduction: a block of its own sums one part in registers, and the tile adds
// that to what the parts before gave.
#pragma once

#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "schedules/library/tile.h"

namespace nestor::library {

// Of `b`, whose reduction loop `cut` has been split (LOOP0 walks the parts, LOOP1 one part), makes the block
// NAME_part, and gives it. `reduced`: the loops of a part in their order.
BlockInfo factor_part(Schedule& s, const BlockInfo& b, const std::string& cut,
                      const std::vector<std::string>& reduced);

// The tile in the iterators of such a block.
Tile tile_in(const BlockInfo& part, Tile t);

// The loops of the tile in the block that adds the parts up.
struct AddingTile {
  std::string block, at;  // the loop around it
  std::string lanes;
  std::vector<std::string> unrolled;
};

// The block `part`, as factor_part left it, sums a part for one tile at a time.
void compute_part(Schedule& s, const BlockInfo& part, const AddingTile& adding);

// It then keeps that in registers, in a tile `t` of its own iterators, by its loops `reduced`, of which those
// of one step may be gone. Gives those that are there.
std::vector<std::string> keep_part(Schedule& s, const BlockInfo& part, const Tile& t,
                                   const AddingTile& adding, std::vector<std::string> reduced);

}  // namespace nestor::library
