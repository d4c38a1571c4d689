// The chain of blocks that Winograd's convolutions are, found by their dependences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/library/analysis.h"

namespace nestor {
class Schedule;
struct Target;
}  // namespace nestor

namespace nestor::library {

struct Tile;

// Index that a block's value is chosen by: an iterator compared with constants, as it is or modulo something.
struct Choice {
  std::string loop;
  int64_t modulo = 0;  // 0: the iterator itself; of results along an image that is one tile, its extent
};

// Two maps that transform, a reduction over what they made, and two maps that transform its results.
struct TransformedChain {
  BlockInfo first, second, products, third, last;
  Choice by_first, by_second, by_third, by_last;
};
std::optional<TransformedChain> find_transformed_chain(const PrimFunc& f);

// The only block that writes what `b` reads besides parameters, if nobody else reads it; else empty.
std::string sole_producer(const PrimFunc& f, const BlockInfo& b);

// The loop of `reader` that walks dimension `dim` of the buffer as a plain index; empty where none does.
std::string loop_over_dim(const BlockInfo& reader, const Buffer& buffer, size_t dim);
// The loop of the chain's last block that is `loop` of its third.
std::string in_last(const TransformedChain& c, const std::string& loop);
// The last block's loops over images: what the products number together with rows and columns of tiles.
std::vector<std::string> image_loops(const TransformedChain& c);
// Tiles as the second block and the products number them: by `loop`, which counts those of all rows, or,
// where sizes of images are open, those of a row, and the rows by `rows`.
struct Tiles {
  std::string loop, rows;  // empty: none
  int64_t in_row = 0;      // 0: they aren't numbered
};
Tiles tiles_of(const TransformedChain& c);

// Blocks of rows of tiles: bytes transformed for one, tiles in it, how many blocks, bytes transformed for all
// of them, those of the constant operand, how many cores share one, and the cycles of all products. Gives a
// measure of what they take: of a wide core far from its third level the bytes that it could move in that
// time, of others those that they do move.
struct TransformedBlocks {
  int64_t bytes, tiles, count, moved, constant, cores;
  double cycles;
};
double cost_of_blocks(const TransformedBlocks& b, const Target& target);

// The register tile of the products `b`, changed so that panels of weights are of one width, and that there
// are two of them at least.
void even_columns(Tile& t, const BlockInfo& b, const Target& target);
void leave_next_panel(Tile& t, const BlockInfo& b, const Target& target);
// The same with more columns and fewer rows: of as many rows as a run decides, a rest of one or two then has
// sums enough under way.
void widen_for_rests(Tile& t, const Target& target);

// What the products b ask for ahead: panels of their weights, and the tiles' data of the next product.
struct ProductLoops {
  std::string panels;                // the loop over them
  bool whole;                        // all tiles are transformed before, not those of a block of rows
  std::vector<std::string>* around;  // loops around the tile, `panels` among them; some get fused
};
void stream_products(Schedule& s, const BlockInfo& b, const Tile& t, const ProductLoops& loops,
                     const Target& target);

// Asks ahead for what tiles write in `last`, where the caches don't hold it: a line of tiles in the next
// channels while this one is made.
struct OutputLoops {
  std::string channels, tiles;  // empty: none
};
void ask_for_output(Schedule& s, const BlockInfo& last, const OutputLoops& loops, const Target& target);

// Whether the products' data of all tiles, in one column, stay in the first-level cache beside what passes.
bool one_column_stays(const BlockInfo& b, int64_t tiles, const Target& target);
// Of how many parts of the channels the products' data of all tiles stays in the first-level cache, by the
// register tile t with all tiles as one column; 1: of all, or that isn't worth it.
int64_t parts_that_stay(const BlockInfo& b, const Tile& t, const Target& target);
// Schedules the products b by such parts. Gives the loops that stand around them, over points.
std::vector<std::string> products_in_parts(Schedule& s, Tile t, const BlockInfo& b, int64_t parts,
                                           const Target& target);

}  // namespace nestor::library
