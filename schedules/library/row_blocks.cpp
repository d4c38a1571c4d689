// What moves with the rows of a tile passes once for every tile of columns. Where it doesn't stay in the
// second-level cache meanwhile, it comes from behind it each time: a 1x1 convolution over an image of some
// megabytes waits for memory more than it multiplies. So tiles of rows go by blocks that do stay, and all
// tiles of columns pass over a block before the next:
//
//   other S loops | blocks of row tiles | column or vector tiles | row tiles | ...
//
// The panel that moves with the columns comes again for every block, and it must be asked for ahead
// (stream_panels.cpp) or be foreseen. So rows that lie dense along the reduction, a matrix's, which the
// machine foresees as well, go by blocks only where the panels are asked for, and by blocks that leave most
// of the cache to what passes: its sets fill unevenly. (A far third level, 2 MB of the second: 1024^3
// 71 % of the peak, blocks of half the cache 68, none 65; 512^3 69 against 66. Zen 5: no gain.)
//
// In return the operand that moves with the columns passes once for every block. With X and W bytes in all,
// n tiles of columns and m blocks, n X + W become X + m W, or X + W where W stays beside a block.
// (The loops around the macro-kernel in Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication, ACM TOMS 34(3), 2008; theirs keep a block of either operand in a level each.)
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kLeastTiles = 4;  // of rows in a block: a panel of columns is fetched again for each block
constexpr int64_t kLeastRows = 96;  // dense, that use a panel asked for ahead (2048^3 by 60 rows: no gain)
constexpr double kLeastSaved = 0.25;  // of what passes

bool moves_with_columns(const Access& a, const Tile& t) {
  return a.uses(*t.vector) || (t.column && a.uses(*t.column));
}

bool dense_rows_by_blocks(const BlockInfo& b, const Tile& t, const Target& target) {
  return far_third_level(target) && !streamed(b, t, target).empty();
}

}  // namespace

RowBlocks choose_row_blocks(const BlockInfo& b, const Tile& t, const std::vector<std::string>& between,
                            const Target& target) {
  RowBlocks none;
  if (!t.vector || !t.row || t.turned || !t.copied.empty() || !t.panels.empty()) return none;
  for (const std::string& l : between)
    if (b.iter(l)->extent > 1) return none;
  const int64_t tiles =
      t.column ? ceil_div(t.column->extent, t.columns) : ceil_div(t.vector->extent, t.width);
  const int64_t in_all = ceil_div(t.row->extent, t.rows);
  std::map<const Iter*, int64_t> extents;
  for (const Iter& i : b.iters)
    if (i.reduce) extents[&i] = i.extent;
  bool apart = false;  // one row's elements, by more than there are of them
  for (const Access& a : b.accesses)
    for (const Iter* r : b.reduced())
      apart |= !a.write && a.uses(*t.row) && a.uses(*r) && !moves_with_columns(a, t) &&
               std::abs(a.stride(*r).value_or(a.elements)) > b.reduction_size();
  if (tiles < 2 || in_all < 2 * kLeastTiles || (!apart && !dense_rows_by_blocks(b, t, target))) return none;
  const auto rows_read = [&](int64_t row_tiles) {
    extents[t.row] = std::min(row_tiles * t.rows, t.row->extent);
    int64_t n = 0;
    for (const Access& a : b.accesses)
      if (!a.write && !moves_with_columns(a, t)) n += bytes_read(a, extents, b);
    return n;
  };
  int64_t columns = 0;
  for (const Access& a : b.accesses) {
    auto all = extents;
    for (const Iter* i : {t.vector, t.column})
      if (i) all[i] = i->extent;
    if (!a.write && moves_with_columns(a, t)) columns += bytes_read(a, all, b);
  }
  const int64_t all = rows_read(in_all), fits = target.l2_bytes / (apart ? 2 : 4);
  if (all <= (apart ? target.l2_bytes : fits * 3 / 2)) return none;
  int64_t size = in_all;
  if (apart)
    while (size >= kLeastTiles && rows_read(size) > fits) size = ceil_div(size, 2);
  else
    size = std::max<int64_t>(1, fits * in_all / all);
  const int64_t blocks = ceil_div(in_all, size);
  size = ceil_div(in_all, blocks);
  const int64_t block = rows_read(size);
  if (blocks < 2 || size < kLeastTiles || block > fits || (!apart && size * t.rows < kLeastRows)) return none;
  const bool beside = columns + block <= target.l2_bytes * 3 / 4;
  const auto now = static_cast<double>(tiles * all + columns),
             then = static_cast<double>(blocks * block + (beside ? 1 : blocks) * columns);
  if (then > (1 - kLeastSaved) * now) return none;
  return {size,
          fmt::format(
              "{:.0f} KiB that move with {} stay in the second-level cache while all {} tiles of {} pass; "
              "else {:.0f} KiB would come from behind it each time",
              static_cast<double>(block) / 1024, t.row->loop, tiles,
              t.column ? t.column->loop : t.vector->loop, static_cast<double>(all) / 1024)};
}

}  // namespace nestor::library
