// How large a tile is that is turned in registers (turn_map.cpp).
#pragma once

#include "nestor/target.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

// Elements along each side of a square in registers: a line of them, or 16.
int64_t side_of(const BlockInfo& b);

// Whether stores past the caches are of two lines beside each other: where they go to a mesh, and where
// vectors are shorter and what is read comes from few sets. (Emerald Rapids: 2048 x 2048 1.62 to 1.02 ms,
// 3008 x 4000 4.6 to 3.0, 256 x 12544 1.40 to 0.76. Zen 3: 2048 x 2048 3.1 to 2.6 ms, 4096 x 1024 3.1 to
// 2.8, 12544 x 256 2.5 to 2.1; but 3008 x 4000 6.6 to 8.3, f16 4096 x 4096 9.8 to 15.)
bool stores_pairs(const BlockInfo& b, const Iter& lanes, const Target& target);

// Elements of a tile along the lanes: where a line of them fills one register, squares whose rows are 16
// bytes share it, and are turned by the same instructions. Stores past the caches are of whole lines.
int64_t lanes_across(const BlockInfo& b, const Iter& lanes, bool streaming, const Target& target);

// Rows in a tile: two lines of them, unless what is written falls into too few sets of the cache, or doesn't
// stay in the second level.
int64_t rows_of(const BlockInfo& b, const Iter& rows, const Target& target);

// Where a tile's rows are a part of each line that it writes: the iterator that goes on with these lines, if
// the first level doesn't hold them until it does, since it takes all lanes first. Null where it does.
const Iter* fills_lines(const BlockInfo& b, const Iter& lanes, const Iter& rows, const Target& target);

}  // namespace nestor::library
