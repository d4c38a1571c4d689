// How many vectors and rows the register tiles of a chain of two products have: both products share them, so
// that scores stay where they are.
#include <algorithm>
#include <limits>

#include "schedules/library/product_chain.h"
#include "schedules/library/tile.h"

namespace nestor::library {

namespace {

int64_t most_rows(int64_t vectors, int64_t spare, const Target& target) {
  return std::max<int64_t>(1, (target.vector_registers - vectors - 1 - spare) / vectors);
}

// The micro-operations of a row's step, along so many vectors, in tiles of `rows` that are as wide as
// `vectors`: FMAs, broadcasts, and its part of the loads and the loop.
double slots_of_row(int64_t all, int64_t vectors, double rows, double of_the_loop) {
  const auto of_tile = [&](int64_t n) {
    const auto w = static_cast<double>(n);
    return n == 0 ? 0 : std::max(w, kToHideLatency / rows) + 1 + (w + of_the_loop) / rows;
  };
  return static_cast<double>(all / vectors) * of_tile(vectors) + of_tile(all % vectors);
}

}  // namespace

// The vectors beside each other in a tile of both products. Of two most rows fit the registers; what scores
// are multiplied with then passes most rarely. But a core that takes up few micro-operations a cycle has
// hardly any left beside 14 x 2 FMAs and 16 loads: those of fewer rows and more vectors are fewer, most of
// all where they take whole rows of results. (Cascade Lake, 4 a cycle, alone on its core and beside another
// thread: 12x512x64 by 6 x 4 takes 6 and 10 % less time, 5x300x80 by 5 x 5 6 and 13 %, 12x197x64_split 3.)
// Tiles that leave registers for two steps in one body (two_steps.cpp) count the loop once for both.
// (8x256x96 by 8 x 3 2 % less time than by 9 x 3.)
//
// Of results that end in half a vector, its accumulators and those of five whole ones change places in each
// step, as LLVM gives out registers: 8x256x72 by 6 x 4 23 % less time than by 5 x 5.
ChainTile chain_tile(const BlockInfo& second, const Target& target) {
  constexpr int64_t kFewest = 2, kMost = 5;
  ChainTile best{kFewest, most_rows(kFewest, 0, target)};
  const Iter* results = lanes_in(second);
  if (!is_narrow(target) || !results) return best;
  const int64_t lanes = lanes_of(second, target), keys = second.reduction_size();
  const bool part = results->extent > lanes && results->extent % lanes != 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t v = kFewest; v <= (part ? kMost - 1 : kMost); ++v)
    for (const int64_t spare : {int64_t{0}, spare_for_two_steps(target)}) {
      const int64_t rows = most_rows(v, spare, target);
      const bool pairs = rows * v + v + 1 + spare_for_two_steps(target) <= target.vector_registers;
      const auto slots = [&](int64_t extent, bool paired) {
        return slots_of_row(ceil_div(extent, lanes), v, static_cast<double>(rows),
                            paired ? kOfTheLoop / 2 : kOfTheLoop);
      };
      // Rows of what keys are are about as long as those of results.
      const double both = slots(results->extent, pairs && !part) * static_cast<double>(keys) +
                          slots(keys, pairs) * static_cast<double>(results->extent);
      if (both >= least) continue;
      least = both;
      best = {v, rows};
    }
  return best;
}

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

}  // namespace nestor::library
