// A tile of dot products: lanes are steps of the reduction; see tile_dots.cpp.
#pragma once

#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "nestor/target.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

struct DotTile {
  const Iter *row = nullptr, *column = nullptr, *k = nullptr;  // along k lie a vector's steps
  std::string lanes;                                           // the loop over these
  bool cut = false;                                            // k has more of them: it is to be split
  std::vector<const Iter*> outside;                            // the other S iterators
  std::vector<const Iter*> steps;                              // the other R iterators
  bool windows = false;                                        // an image's, else a product's
};

// Row is null where the block can't be computed so.
DotTile find_dot_tile(const BlockInfo& b, int64_t lanes);

// Of windows, or of their partial sums: the operand that isn't constant, and how much of it they read, but
// for what strides leave out between them (what they leave over at an end is counted).
const Access& image_of(const BlockInfo& b);
int64_t bytes_of_image(const BlockInfo& b);

// Of windows whose partial sums, by loops `steps`, are the block `sums`: lines of the image that come from
// far are asked for.
void prefetch_blocks(Schedule& s, const BlockInfo& sums, const DotTile& d,
                     const std::vector<std::string>& steps, int64_t rows, const Target& target);

}  // namespace nestor::library
