// How many vectors and rows the register tiles of a chain of two products have: both products share them, so
// that scores stay where they are.
#include <algorithm>

#include "schedules/library/product_chain.h"
#include "schedules/library/tile.h"

namespace nestor::library {

namespace {

int64_t most_rows(int64_t vectors, const Target& target) {
  return std::max<int64_t>(1, (target.vector_registers - vectors - 1) / vectors);
}

// The micro-operations of a row's step, along so many lanes, in tiles as wide as `vectors`: FMAs, broadcasts,
// and its part of the loads and the loop.
double slots_of_row(int64_t extent, int64_t lanes, int64_t vectors, const Target& target) {
  const auto rows = static_cast<double>(most_rows(vectors, target));
  const auto of_tile = [&](int64_t n) {
    const auto w = static_cast<double>(n);
    return n == 0 ? 0 : std::max(w, kToHideLatency / rows) + 1 + (w + kOfTheLoop) / rows;
  };
  const int64_t all = ceil_div(extent, lanes);
  return static_cast<double>(all / vectors) * of_tile(vectors) + of_tile(all % vectors);
}

}  // namespace

// The vectors beside each other in a tile of both products. Of two most rows fit the registers; what scores
// are multiplied with then passes most rarely. But a core that takes up few micro-operations a cycle has
// hardly any left beside 14 x 2 FMAs and 16 loads: those of fewer rows and more vectors are fewer, most of
// all where they take whole rows of results. (Cascade Lake, 4 a cycle, alone on its core and beside another
// thread: 12x512x64 by 6 x 4 takes 6 and 10 % less time, 5x300x80 by 5 x 5 6 and 13 %, 12x197x64_split 3.)
int64_t chain_vectors(const BlockInfo& second, const Target& target) {
  constexpr int64_t kFewest = 2, kMost = 5;
  const Iter* results = lanes_in(second);
  if (!is_narrow(target) || !results) return kFewest;
  const int64_t lanes = lanes_of(second, target);
  const auto slots = [&](int64_t v) { return slots_of_row(results->extent, lanes, v, target); };
  int64_t best = kFewest;
  for (int64_t v = kFewest + 1; v <= kMost; ++v)
    if (slots(v) < slots(best)) best = v;
  return best;
}

// As many rows as registers allow, all tiles of nearly the same size; fewer, where that leaves few over: a
// tile of a row or two takes as long as one that hides an FMA's latency. (Zen 5: 12x197x64 0.7 % faster by
// 12 rows and 5 left over than by 14 and 1.)
int64_t chain_rows(int64_t extent, int64_t vectors, const Target& target) {
  const int64_t fewest = kToHideLatency / vectors;
  constexpr double kOfATile = 0.7;  // what a tile costs beside its rows, in rows
  const int64_t most = most_rows(vectors, target);
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
