// How many vectors and rows the register tiles of a chain of two products have: both products share them, so
// that scores stay where they are.
#include <algorithm>
#include <limits>
#include <set>

#include "schedules/library/product_chain.h"
#include "schedules/library/tile.h"

namespace nestor::library {

int64_t most_tile_rows(int64_t vectors, int64_t spare, const Target& target) {
  return std::max<int64_t>(1, (target.vector_registers - vectors - 1 - spare) / vectors);
}

namespace {

// The micro-operations of a step along so many columns, for all rows: of each tile, of so many rows and
// vectors at most, its FMAs, broadcasts, loads and loop. A tile of few accumulators waits for them.
double slots_of_step(int64_t columns, int64_t all_rows, const ChainTile& tile, int64_t lanes,
                     const Target& target) {
  const int64_t width = tile.vectors * lanes;
  const int64_t used = tile.rows * tile.vectors + tile.vectors + 1 + spare_for_steps(target);
  const bool at_once = used <= target.vector_registers && !ends_in_part(columns, width, lanes);
  const double loop = at_once ? kOfTheLoop / 2 : kOfTheLoop;
  const auto of_tile = [&](int64_t rows, int64_t vectors) {
    if (rows == 0 || vectors == 0) return 0.0;
    return std::max<double>(static_cast<double>(rows * vectors + rows + vectors) + loop, kToHideLatency);
  };
  const auto of_rows = [&](int64_t rows) {
    return static_cast<double>(columns / width) * of_tile(rows, tile.vectors) +
           of_tile(rows, ceil_div(columns % width, lanes));
  };
  return static_cast<double>(all_rows / tile.rows) * of_rows(tile.rows) + of_rows(all_rows % tile.rows);
}

}  // namespace

// As many rows as registers allow, all tiles of nearly the same size; fewer, where that leaves few over: a
// tile of a row or two takes as long as one that hides an FMA's latency. (Zen 5: 12x197x64 0.7 % faster by
// 12 rows and 5 left over than by 14 and 1.)
int64_t chain_rows(int64_t extent, const ChainTile& tile) {
  const int64_t fewest = kToHideLatency / tile.vectors;
  constexpr double kOfATile = 0.7;  // what a tile costs beside its rows, in rows
  const int64_t most = tile.rows;
  const auto cost = [&](int64_t rows) {
    const auto of_tile = [&](int64_t n) {
      return n == 0 ? 0 : static_cast<double>(std::max(n, fewest)) + kOfATile;
    };
    return static_cast<double>(extent / rows) * of_tile(rows) + of_tile(extent % rows);
  };
  int64_t best = ceil_div(extent, ceil_div(extent, most));
  for (int64_t rows = most; rows > most / 2; --rows)
    if (cost(rows) < cost(best)) best = rows;
  return best;
}

// The vectors beside each other in a tile of both products. Of two most rows fit the registers; what scores
// are multiplied with then passes most rarely. But a core that takes up few micro-operations a cycle has
// hardly any left beside 14 x 2 FMAs and 16 loads: those of fewer rows and more vectors are fewer. (Cascade
// Lake, 4 a cycle, alone on its core and beside another thread: 12x512x64 by 6 x 4 takes 6 and 10 % less
// time, 12x197x64_split 3.) Tiles that leave registers for two steps in one body (steps_at_once.cpp) count
// the loop once for both, where they end in whole vectors. (8x256x96 by 8 x 3 2 % less time than by 9 x 3.)
// What counts is the tiles that there are, of rows and columns that are left over too: 9 queries of 197 keys,
// heads of 96, by 9 x 3 take 8 % less time than by 5 and 4 x 3.
//
// Five vectors by five rows would take results of 65 to 80 columns whole, but of 32 registers they leave one.
// What LLVM keeps there over both products (masks, constants of exp) then has accumulators change places in
// each step, of some lengths: 8x128x80 by 8 x 3 32 % less time, 8x256x72 by 6 x 4 23 %; 5x300x80 3 % more.
ChainTile chain_tile(const BlockInfo& second, int64_t rows, const Target& target, bool alone) {
  constexpr int64_t kFewest = 2, kMost = 4;
  ChainTile best{kFewest, most_tile_rows(kFewest, 0, target)};
  const Iter* results = lanes_in(second);
  if (!target.is_narrow() || !results) return best;
  const int64_t lanes = lanes_of(second, target), keys = second.reduction_size();
  double least = std::numeric_limits<double>::infinity();
  const std::set<int64_t> spares{0, spare_for_steps(target)};
  for (int64_t v = kFewest; v <= kMost; ++v) {
    for (const int64_t spare : spares) {
      const ChainTile most{v, most_tile_rows(v, spare, target)};
      const ChainTile tile{v, chain_rows(rows, most)};
      double slots = slots_of_step(results->extent, rows, tile, lanes, target) * static_cast<double>(keys);
      // The first product's steps are about as many as the second's columns.
      if (!alone)
        slots += slots_of_step(keys, rows, tile, lanes, target) * static_cast<double>(results->extent);
      if (slots >= least) continue;
      least = slots;
      best = most;
    }
  }
  return best;
}

}  // namespace nestor::library
