// An output that doesn't stay in the second-level cache, or of which other work leaves nothing there from one
// call to the next, is written to memory whatever the order of its tiles, but how fast depends on it. Tiles
// that follow each other along the output's rows write a few streams from front to back, one for each row of
// a tile, and the machine fetches their next lines before they are stored to. Tiles that follow each other
// down a column write a line or two in each of hundreds of pages before they return to the first: every line
// is waited for. So where the operand that all tiles of rows share stays in the second-level cache as a
// whole, tiles go in the order of the output:
//
//   S loops by their distance in the output | columns innermost | R loops | ...
//
// So they do, too, where another iterator's results lie between a tile's rows: the phases of a transposed
// convolution, whose lines would be written one in so many at a time, or an image's lines between filters.
// (Cascade Lake: t4x4/4_2-90@52x32 in blocks 3.4 to 1.9 ms, 3x3/1_7-61@54 0.39 to 0.28.) A tile may hold all
// phases along the vector, whose elements then lie beside each other. (Zen 4, t4x4x4/4_32-64@16x10x8 by 8
// groups, beside other work: 2.9 to 1.5 ms.)
//
// (Granite Rapids, 25 to 45 ns a line less: 3x3/1_4-384@118 13.5 to 3.8 ms, 2048x32x2048 6.0 to 2.5,
// 2048x128x2048 10.8 to 7.0, 768x32x768 0.31 to 0.25; 8192x64x96 0.83 to 0.75. Among other libraries' work,
// outputs of 1 MB: 272x1x896 53 to 31 us, 206x8x1472 98 to 48, 300x20x800 87 to 60.)
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr int64_t kShareOfL2 = 8;  // of the cache, that the output takes: less comes back quickly

// How far results beside each other along the iterator are in the output; nothing where that changes.
std::optional<int64_t> distance_of(const Iter& i, const BlockInfo& b, const BlockInfo* written) {
  if (!written) return write_of(b)->stride(i);
  const Iter* over = iter_over(*written, b.output, dim_of(b, &i));
  return over ? write_of(*written)->stride(*over) : std::nullopt;
}

}  // namespace

OutputOrder output_order(const BlockInfo& b, const Tile& t, const BlockInfo* written, const Target& target) {
  OutputOrder none;
  const Access* out = write_of(written ? *written : b);
  if (!t.vector || !t.row || t.beside || t.turned || !t.panels.empty() || !out) return none;
  std::map<const Iter*, int64_t> distances;
  for (const Iter* i : b.spatial()) {
    const auto distance = distance_of(*i, b, written);
    if (!distance) return none;
    distances[i] = *distance;
  }
  // All phases along the vector lie in one tile: together they are one row of the output, and the columns are
  // the tile's rows.
  const bool interleaved =
      t.column && t.rows >= t.row->extent && distances[t.row] == 1 && distances[t.vector] == t.row->extent;
  if (distances[t.vector] != 1 && !interleaved) return none;
  const Iter* row = interleaved ? t.column : t.row;
  int64_t passing = distances[row];  // of the outermost that walk the same operand as the rows
  bool between = false;              // whether something lies between the rows
  for (const Iter* i : b.spatial()) {
    if (i == t.vector || i == t.row || i == t.column || i->extent < 2) continue;
    between |= distances[i] < distances[row];
    for (const Access& a : b.accesses)
      if (!a.write && a.uses(*row) && a.uses(*i)) passing = std::max(passing, distances[i]);
  }
  if (!between) {
    if (t.column || t.vector->extent <= t.width || t.row->extent <= t.rows) return none;
    passing = distances[row];
  }
  const int64_t size = out->elements * bytes_of(out->buffer->type.dtype);
  if (size <= target.l2_bytes / kShareOfL2) return none;
  const int64_t room = target.l2_bytes / (size > target.l2_bytes ? 2 : 4);

  std::map<const Iter*, int64_t> extents;
  std::vector<const Iter*> order;
  for (const Iter& i : b.iters) {
    // What stands outside the rows (a batch) stays while they pass.
    extents[&i] = i.reduce || distances[&i] <= passing ? i.extent : 1;
    if (!i.reduce) order.push_back(&i);
  }
  int64_t shared = 0;
  for (const Access& a : b.accesses)
    if (!a.write && !a.uses(*row)) shared += bytes_read(a, extents, b);
  if (shared > room) return none;

  std::stable_sort(order.begin(), order.end(),
                   [&](const Iter* x, const Iter* y) { return distances[x] > distances[y]; });
  return {order, fmt::format("{:.0f} KiB of output go to memory: {} rows of it at a time, in order; the "
                             "{:.0f} KiB that they share stay in L2",
                             static_cast<double>(size) / 1024, interleaved ? t.columns : t.rows,
                             static_cast<double>(shared) / 1024)};
}

}  // namespace nestor::library
