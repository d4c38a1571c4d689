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
// (Granite Rapids, 25 to 45 ns a line less: 3x3/1_4-384@118 13.5 to 3.8 ms, 2048x32x2048 6.0 to 2.5,
// 2048x128x2048 10.8 to 7.0, 768x32x768 0.31 to 0.25; 8192x64x96 0.83 to 0.75. Among other libraries' work,
// outputs of 1 MB: 272x1x896 53 to 31 us, 206x8x1472 98 to 48, 300x20x800 87 to 60.)
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kLeastPart = 8;  // of the cache, that the output takes: less comes back quickly

}  // namespace

OutputOrder output_order(const BlockInfo& b, const Tile& t, const Target& target) {
  OutputOrder none;
  if (!t.vector || !t.row || t.column || t.turned || !t.panels.empty()) return none;
  if (t.vector->extent <= t.width || t.row->extent <= t.rows) return none;
  const auto out =
      std::find_if(b.accesses.begin(), b.accesses.end(), [](const Access& a) { return a.write; });
  if (out == b.accesses.end() || out->stride(*t.vector) != 1) return none;
  const int64_t size = out->elements * bytes_of(out->buffer->type.dtype);
  if (size <= target.l2_bytes / kLeastPart) return none;
  const int64_t room = target.l2_bytes / (size > target.l2_bytes ? 2 : 4);

  std::map<const Iter*, int64_t> extents;
  std::vector<const Iter*> order;
  for (const Iter& i : b.iters) {
    const auto distance = out->stride(i);
    if (!i.reduce && !distance) return none;
    // What stands outside the rows (a batch) stays while they pass.
    extents[&i] = i.reduce || *distance <= *out->stride(*t.row) ? i.extent : 1;
    if (!i.reduce) order.push_back(&i);
  }
  int64_t shared = 0;
  for (const Access& a : b.accesses)
    if (!a.write && !a.uses(*t.row)) shared += bytes_read(a, extents, b);
  if (shared > room) return none;

  std::stable_sort(order.begin(), order.end(),
                   [&](const Iter* x, const Iter* y) { return *out->stride(*x) > *out->stride(*y); });
  return {order, fmt::format("{:.0f} KiB of output go through memory: {} rows of it at a time, from front to "
                             "back; the {:.0f} KiB that they share stay in the second-level cache",
                             static_cast<double>(size) / 1024, t.rows, static_cast<double>(shared) / 1024)};
}

}  // namespace nestor::library
