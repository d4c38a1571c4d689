// Which tile a product gets on a GPU, and in how many parts its sums: by what its blocks take, one wave of
// them after the other.
#include <algorithm>
#include <array>
#include <vector>

#include "schedules/library/cuda_tile.h"

namespace nestor::library {

namespace {

constexpr std::array<ProductTile, 10> kTiles = {{
    {{4, 2, 4, 4}, {2, 2, 8, 4}, 8},   // 128 x 128, 8 x 8 of a thread
    {{2, 2, 4, 4}, {2, 2, 8, 4}, 8},   // 64 x 128
    {{4, 2, 4, 4}, {1, 2, 8, 4}, 8},   // 128 x 64
    {{4, 1, 4, 4}, {1, 2, 8, 4}, 16},  // 64 x 64, 4 x 8
    {{2, 1, 4, 4}, {2, 1, 8, 4}, 16},  // 32 x 64, 4 x 4
    {{2, 1, 4, 4}, {1, 1, 8, 4}, 16},  // 32 x 32
    {{4, 1, 4, 2}, {1, 1, 8, 4}, 16},  // 32 x 32, 2 x 4
    {{2, 1, 4, 2}, {2, 1, 8, 2}, 16},  // 16 x 32, 2 x 2
    {{4, 1, 4, 1}, {1, 1, 8, 2}, 16},  // 16 x 16, 1 x 2
    {{2, 1, 4, 1}, {2, 1, 8, 1}, 16},  // 8 x 16, one each
}};

// Threads a multiprocessor that hide latencies.
constexpr double kBusy = 192;
constexpr double kLanes = 64;                           // multiply-adds a cycle of a multiprocessor
constexpr double kLaunch = 4000;                        // cycles between two kernels
constexpr double kRagged = 1.1;                         // of parts that have to be padded
constexpr double kFetch = 400;                          // cycles until a block has its next tiles
constexpr double kOverlap = 0.25;                       // of the shorter of both, a part that shows anyway
constexpr double kUnsure = 1.4;                         // what a second kernel must gain in this estimate
constexpr double kMemoryBytes = 1100;                   // a cycle
constexpr int64_t kMostParts = 32, kShortestPart = 64;  // of a sum; steps of one

// Cycles of a multiprocessor, which is as fast as its shared memory lets it: a thread reads own() of rows and
// of columns for the product of both. Many blocks start as others end, a few run in whole waves. Parts of
// sums are written, and read by a second kernel.
double price(const ProductTile& t, int64_t batch, int64_t rows, int64_t columns, int64_t steps,
             int multiprocessors) {
  const int64_t tiles = batch * ceil_div(rows, t.rows.size()) * ceil_div(columns, t.columns.size());
  const int64_t blocks = tiles * t.parts;
  const double waves = blocks > 4 * multiprocessors ? static_cast<double>(blocks) / multiprocessors
                                                    : static_cast<double>(ceil_div(blocks, multiprocessors));
  const double busy = std::min(1.0, waves * static_cast<double>(t.threads()) / kBusy);
  const double reads = 1.0 / static_cast<double>(t.rows.own()) + 1.0 / static_cast<double>(t.columns.own());
  const auto size = static_cast<double>(t.rows.size() * t.columns.size());
  const auto of_part = static_cast<double>(t.steps * ceil_div(steps, t.parts * t.steps));
  const double guards = steps % (t.parts * t.steps) == 0 ? 1 : kRagged;
  const double compute = guards * waves * size * (1 + reads) / busy * of_part / kLanes;
  const double fetch = kFetch * of_part / static_cast<double>(t.steps);
  const double cycles = std::max(compute, fetch) + kOverlap * std::min(compute, fetch);
  if (t.parts == 1) return cycles;
  return kUnsure * cycles + kLaunch + 2 * sizeof(float) * size * static_cast<double>(blocks) / kMemoryBytes;
}

}  // namespace

ProductTile choose_product_tile(int64_t batch, int64_t rows, int64_t columns, int64_t steps,
                                int multiprocessors) {
  std::vector<ProductTile> all;
  for (ProductTile t : kTiles) {
    while (t.steps > 8 && t.steps / 2 >= steps) t.steps /= 2;
    for (t.parts = 1; t.parts == 1 || (t.parts <= kMostParts && steps / t.parts >= kShortestPart); ++t.parts)
      all.push_back(t);
  }
  return *std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return price(a, batch, rows, columns, steps, multiprocessors) <
           price(b, batch, rows, columns, steps, multiprocessors);
  });
}

}  // namespace nestor::library
