// The chain of blocks that attention is: two products with maps and reductions of rows between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "nestor/target.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

constexpr int64_t kFewestRows = 4;  // for which an operand is worth a copy, or a tile of registers

// What is between the two products, and what may be behind the second one.
struct ProductChain {
  std::string first, second, epilogue;
  std::vector<std::string> between;  // in program order
  std::vector<std::string> moved;    // maps of parameters that only a product reads: turned, scaled operands
  Buffer scores;                     // of the second's operands the one made here
};

std::optional<ProductChain> find_product_chain(const PrimFunc& f);

// Maps that one other map reads vanish in it: a scale and a mask are one pass over the scores.
void inline_chain_maps(Schedule& s);

// The S iterator along which a product's lanes go: all that moves with it lies dense.
const Iter* lanes_in(const BlockInfo& b);
// The iterator that indexes dimension `dim` of what is accessed; null where that isn't a plain variable.
const Iter* iter_at(const BlockInfo& b, const Access& a, size_t dim);
// The dimension that i indexes.
size_t dim_of(const BlockInfo& b, const Access& a, const Iter& i);
const Access& access_to(const BlockInfo& b, const Buffer& buffer, bool write);

// Of the tiles of both products, or of the second `alone`: the vectors beside each other in a row, and the
// rows (chain_tile.cpp).
struct ChainTile {
  int64_t vectors = 0, rows = 0;  // at most so many rows
};
ChainTile chain_tile(const BlockInfo& second, int64_t rows, const Target& target, bool alone = false);
int64_t chain_rows(int64_t extent, const ChainTile& tile);
// What the registers hold beside a row of vectors, a broadcast and so many spare ones.
int64_t most_tile_rows(int64_t vectors, int64_t spare, const Target& target);

// The chain with its scores turned around: lanes are queries. False where it isn't softmax (turned_parts.h)
// of few queries.
bool turned_products(Schedule& s, const ProductChain& chain, const Target& target);

// Inputs are asked for while something else is worked at (prefetch_operands.cpp): rows that `block` reads for
// each of the loop `row_tiles` alone; what it reads for each of `batch`, for all row tiles, in shares with
// the tiles of `product`, unless these are too few.
void prefetch_next_rows(Schedule& s, const std::string& block, const std::string& row_tiles);
bool prefetch_next_operand(Schedule& s, const std::string& block, const std::string& batch,
                           const std::string& product, const std::string& row_tiles, const Target& target);

}  // namespace nestor::library
