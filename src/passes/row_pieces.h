// Tiles of rows over a symbolic size that aren't full, or lie at the border of an image.
#pragma once

#include <optional>

#include "src/passes/open_parts.h"

namespace nestor::passes {

// What is left of the tile v, which isn't full, in pieces whose extents are constants, so that their results
// can stay in registers: as many pieces of four rows as there are, then one of the rest. Other conditions
// stay, as do those of the borders of an image. Null where the body isn't made of loops over rows alone.
std::optional<Stmt> rest_in_pieces(const Var& v, const OpenParts& parts, const Stmt& body);

// Tiles of sums of products at the borders of an image. One body for all of them: a row that has no element
// there, or that isn't there, multiplies 0 instead,
//
//   if (x < width && 0 <= x + s - 1 < width) T[x] += X[x + s - 1] * W[s]
//   ->  T[x] += (if (x < width && 0 <= x + s - 1 < width) then X[x + s - 1] else 0) * W[s]
//
// Taps that were unrolled since each had conditions of its own become a loop again.
struct MaskedTiles {
  Stmt body;   // the given one with loops over taps, for tiles that need no masks
  Expr usual;  // there are a few rows, and the last one's window begins inside of the image. Then:
  Stmt whole;  // tile v, which has all rows
  Stmt rest;   // tile v, which hasn't, four rows at a time
  Stmt any;    // else any tile v, three rows at a time
};
// Null where there are no borders, or the body does other things than adding products.
std::optional<MaskedTiles> masked_tiles(const Var& v, const OpenParts& parts, const Stmt& body);

}  // namespace nestor::passes
