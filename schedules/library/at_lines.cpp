// Rows that begin at no line: all vectors but the first would each lie in two lines, and a store that waits
// for two of them holds up the stores behind it. So tiles begin where lines of the output do, at the price of
// a first vector that isn't full.
//
// (Emerald Rapids, sums with a row: in the caches 10 to 17 % less time from rows of 201 on, larger ones,
// whose lines are asked for, the same; LayerNormalization of 4000 rows of 201 to 501 16 to 20 % less, of 200
// rows 0 to 10; LogSoftmax of 300 rows of 501 to 1777 7 to 11, softmax of 8 of 50257 4. Of fewer than 3 tiles
// the ragged ones are too much of the work: norms of rows of 77 and 101 take 20 % more, of 130 4 %.) A
// caller's output is taken to begin at a line, as what Nestor and most libraries allocate does; where it
// doesn't, the price is paid for nothing.
//
// What all rows read alike, a norm's scale and shift, is then read from any element of a line on, by twice
// the lines: it must come from the first level. (Of rows of 3001 to 8001 the norms take 2 to 8 % more time,
// of 2001 none less.) Where the third level is near, rows that read such, and maps, gain nothing: a masked
// store waits for its line there. (Zen 5, without: LayerNormalization of 200 to 10000 rows of 201 to 1371 10
// to 25 % less time, sums with a row of 1001 16, concatenations of 301 and 204 6; but softmax of rows of 301
// to 50257 4 to 10 more.)
//
// What a later pass sums up again, a softmax's exponentials, is loaded as it was stored while it is on its
// way to the cache; a load of parts of two stores waits for both. So rows must be so long that stores are
// done by then. (Softmax of 3000 rows of 301 4 % more time, of 501 2 %, of 1001 4 % less, of 1777 3.)
#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

// The bytes that a row passes, and whether all rows read something alike.
struct RowBytes {
  int64_t all = 0;
  bool alike = false;
};

RowBytes bytes_of_row(const BlockInfo& b, const Iter& lanes) {
  RowBytes out;
  for (const Access& a : b.accesses) {
    if (!a.uses(lanes)) continue;
    out.all += lanes.extent * bytes_of(a.buffer->type.dtype);
    out.alike |= std::none_of(b.iters.begin(), b.iters.end(),
                              [&](const Iter& i) { return &i != &lanes && i.extent > 1 && a.uses(i); });
  }
  return out;
}

}  // namespace

std::string at_lines(const BlockInfo& b, const std::string& loop, int64_t width, const Target& target) {
  constexpr int64_t kLeastTiles = 3, kLeastReadAgain = 12;
  const Iter* lanes = b.iter(loop);
  const Access* out = write_of(b);
  if (!lanes || !out || b.reduction || target.vector_bits / 8 != kLine || out->stride(*lanes) != 1) return "";
  if (lanes->extent < width * (b.output_is_param ? kLeastTiles : kLeastReadAgain)) return "";
  const RowBytes row = bytes_of_row(b, *lanes);
  if (row.alike && (row.all > target.l1_bytes / 2 || !target.far_l3())) return "";
  const int64_t bytes = bytes_of(out->buffer->type.dtype);
  bool begin_at_lines = true;
  for (const Iter& i : b.iters) {
    if (&i == lanes || i.extent < 2) continue;
    if (!out->stride(i)) return "";
    begin_at_lines = begin_at_lines && *out->stride(i) * bytes % kLine == 0;
  }
  return begin_at_lines ? "" : " at_lines=" + b.output->name;
}

bool split_at_lines(Schedule& s, const std::string& tiles, const std::string& option) {
  if (option.empty()) return s.try_step(tiles);
  Schedule tried = s;
  tried.because("rows aren't aligned to cache lines: tiles begin at lines");
  if (!tried.try_step(tiles + option)) return s.try_step(tiles);
  s = std::move(tried);
  return true;
}

}  // namespace nestor::library
