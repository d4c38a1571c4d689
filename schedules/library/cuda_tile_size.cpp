// Which tile a product gets on a GPU: by what its blocks take, one wave of them after the other.
#include <algorithm>
#include <array>

#include "schedules/library/cuda_tile.h"

namespace nestor::library {

namespace {

constexpr std::array<ProductTile, 8> kTiles = {{
    {{4, 2, 4, 4}, {2, 2, 8, 4}, 8},   // 128 x 128, 8 x 8 of a thread
    {{2, 2, 4, 4}, {2, 2, 8, 4}, 8},   // 64 x 128
    {{4, 2, 4, 4}, {1, 2, 8, 4}, 8},   // 128 x 64
    {{4, 1, 4, 4}, {1, 2, 8, 4}, 16},  // 64 x 64, 4 x 8
    {{2, 1, 4, 4}, {2, 1, 8, 4}, 16},  // 32 x 64, 4 x 4
    {{2, 1, 4, 4}, {1, 1, 8, 4}, 16},  // 32 x 32
    {{4, 1, 4, 2}, {1, 1, 8, 4}, 16},  // 32 x 32, 2 x 4
    {{2, 1, 4, 2}, {2, 1, 8, 2}, 16},  // 16 x 32, 2 x 2
}};

// Threads a multiprocessor that hide latencies.
constexpr double kBusy = 192;

// In products of one multiprocessor, which is as fast as its shared memory lets it: a thread reads own() of
// rows and of columns for the product of both. Many blocks start as others end, a few run in whole waves.
double price(const ProductTile& t, int64_t batch, int64_t rows, int64_t columns, int multiprocessors) {
  const int64_t blocks = batch * ceil_div(rows, t.rows.size()) * ceil_div(columns, t.columns.size());
  const double waves = blocks > 4 * multiprocessors ? static_cast<double>(blocks) / multiprocessors
                                                    : static_cast<double>(ceil_div(blocks, multiprocessors));
  const double busy = std::min(1.0, waves * static_cast<double>(t.threads()) / kBusy);
  const double reads = 1.0 / static_cast<double>(t.rows.own()) + 1.0 / static_cast<double>(t.columns.own());
  return waves * static_cast<double>(t.rows.size() * t.columns.size()) * (1 + reads) / busy;
}

}  // namespace

ProductTile choose_product_tile(int64_t batch, int64_t rows, int64_t columns, int64_t steps,
                                int multiprocessors) {
  ProductTile best = *std::min_element(kTiles.begin(), kTiles.end(), [&](const auto& a, const auto& b) {
    return price(a, batch, rows, columns, multiprocessors) < price(b, batch, rows, columns, multiprocessors);
  });
  while (best.steps > 8 && best.steps / 2 >= steps) best.steps /= 2;
  return best;
}

}  // namespace nestor::library
