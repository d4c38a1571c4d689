// An output whose rows lie far apart, of an operand whose rows do, a convolution's channels, where neither
// stays in the second-level cache: were each tile of columns to meet all rows before the next, every tile
// would read and write a line or two in as many pages as both have rows. No prefetcher follows so many
// streams, and rows that begin at no line make two lines of each vector and two loads of each. So tiles of
// columns go by runs of about a page of a row, and within a run
//
//   runs of column tiles { copy of the operand's run by panels } | row tiles | column tiles | R loops | ...
//
// a tile's rows are written as few streams from front to back, from panels that lie dense and at lines in the
// cache. (Granite Rapids, 1x1 convolutions: 32-102@110 1.2 to 0.6 ms, 128-303@124 13.4 to 8.1,
// 128-128@112 5.8 to 2.9, 30-338@97 2.1 to 1.4; without the copy 0.65, 10.0, 3.1, 1.6; with as large runs as
// the cache holds up to a quarter more time.)
//
// Rows that begin at lines, in few pages, are as fast as they are, and a near third level gives them so too.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kRun = 4096;      // bytes of a row
constexpr int64_t kLeastTiles = 4;  // in a run
// That share what is copied (Granite Rapids, 48 by 64-48@128: 5 to 10 % more time). A core with a small
// first-level cache has few lines under way at once, and gains from reading from front to back with two tiles
// of rows (Cascade Lake: 168-16@97 2.6 to 1.6 ms, 64-48@123 3.4 to 1.9, 64-48@128 3.5 to 2.8).
constexpr int64_t kLeastRows = 64, kLeastRowsInSmall = 16, kSmall = 32 << 10;

// Where rows begin at lines, as many second-level caches of operand and output are no slower without runs.
constexpr int64_t kAlignedSize = 4;

bool begins_at_lines(const BlockInfo& b, const Access& a, const Iter& columns) {
  for (const Iter& i : b.iters)
    if (&i != &columns && i.extent > 1 && a.uses(i) &&
        a.stride(i).value_or(1) * bytes_of(a.buffer->type.dtype) % kLine != 0)
      return false;
  return true;
}

// Columns lie dense in it, and every index is an iterator's.
bool has_plain_rows(const Access& a, const Iter& columns) {
  return a.stride(columns) == 1 && a.has_plain_indices();
}

int64_t size_of(const Access& a) {
  return a.elements * bytes_of(a.buffer->type.dtype);
}

// The one operand that moves with the columns; null where there are several, or it can't be copied by panels.
const Access* operand_of(const BlockInfo& b, const Tile& t) {
  const Access* operand = nullptr;
  for (const Access& a : b.accesses) {
    if (a.write || !a.uses(*t.vector)) continue;
    if (operand || a.constant || a.uses(*t.row) || !has_plain_rows(a, *t.vector)) return nullptr;
    operand = &a;
  }
  return operand;
}

}  // namespace

ColumnRuns column_runs(const BlockInfo& b, const Tile& t, const Target& target) {
  ColumnRuns none;
  if (!target.far_l3() || !t.vector || !t.row || t.column || t.turned || t.taps || !t.copied.empty())
    return none;
  if (t.row->extent < (target.l1_bytes > kSmall ? kLeastRows : kLeastRowsInSmall)) return none;
  bool behind = false;  // the loops over what shares a run stand inside of that over runs
  for (const Iter* i : b.spatial()) {
    if (behind && i != t.row && i->extent > 1) return none;
    behind |= i == t.vector;
  }
  const Access* operand = operand_of(b, t);
  const auto out =
      std::find_if(b.accesses.begin(), b.accesses.end(), [](const Access& a) { return a.write; });
  if (!operand || out == b.accesses.end() || !has_plain_rows(*out, *t.vector)) return none;
  const int64_t size = size_of(*operand) + size_of(*out);
  const bool at_lines = begins_at_lines(b, *operand, *t.vector) && begins_at_lines(b, *out, *t.vector);
  if (size < target.l2_bytes / 2 || (at_lines && size <= kAlignedSize * target.l2_bytes)) return none;

  const int64_t tiles = ceil_div(t.vector->extent, t.width);
  const int64_t width = t.width * bytes_of(out->buffer->type.dtype);
  const int64_t panel = b.reduction_size() * t.width * bytes_of(operand->buffer->type.dtype);
  const int64_t most = std::min(ceil_div(kRun, width), target.l2_bytes / 4 / panel);  // in a run
  if (most < kLeastTiles) return none;
  int64_t runs = ceil_div(tiles, most);
  const int64_t even = ceil_div(runs, std::max(1, target.cores)) * std::max(1, target.cores);
  if (tiles / even >= kLeastTiles) runs = even;
  if (runs < 2 || tiles / runs < kLeastTiles) return none;
  return {ceil_div(tiles, runs), operand->buffer,
          fmt::format(
              "{} and {} have {} rows, {}; blocks of {} KiB of a row are read and written in order",
              operand->buffer->name, out->buffer->name, b.reduction_size() + t.row->extent,
              at_lines ? fmt::format("{} KiB in all", size / 1024) : "which aren't aligned to cache lines",
              ceil_div(tiles, runs) * width / 1024)};
}

}  // namespace nestor::library
