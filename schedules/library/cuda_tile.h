// Products of two operands through shared memory.
#pragma once

#include "nestor/schedule.h"
#include "schedules/library/cuda_work.h"

namespace nestor::library {

// Schedules a matrix product (any batch dimensions, either operand transposed) and the elementwise block that
// reads it, if `epilogue` isn't empty. Where its tiles are few and its sums long, each block of threads adds
// up a part of a sum, and a second kernel adds up the parts in their order. False, and s as it was, where the
// block is no such product or is too small for tiles.
bool tile_product(Schedule& s, const std::string& block, const std::string& epilogue,
                  int multiprocessors = static_cast<int>(kMultiprocessors));

// Whether the block is a product that tile_product is for.
bool has_tiles(const Block& block);

// A product with few rows, or few columns, likewise.
bool skinny_product(Schedule& s, const std::string& block, const std::string& epilogue);

// How a block of threads computes rows x columns of a product, `steps` of the reduction at a time. Warps and
// lanes lie in both directions; a thread has `run` neighbours, `times` of them a warp's width apart, so that
// lanes side by side read and write side by side.
struct ProductTile {
  struct Side {
    int64_t warps, times, lanes, run;
    int64_t size() const { return warps * times * lanes * run; }
    int64_t own() const { return times * run; }
  };
  Side rows, columns;
  int64_t steps;
  int64_t parts = 1;  // of each sum, by different blocks
  int64_t warps() const { return rows.warps * columns.warps; }
  int64_t threads() const { return 32 * warps(); }
};

// The cheapest for `batch` products of rows x columns with so many steps, each sum in parts if need be.
ProductTile choose_product_tile(int64_t batch, int64_t rows, int64_t columns, int64_t steps,
                                int multiprocessors);

}  // namespace nestor::library
