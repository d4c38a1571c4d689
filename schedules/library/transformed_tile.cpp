// How the register tile of transformed products differs from that of every reduction (tile_size.cpp): panels
// of weights follow each other through all products.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/library/transformed_chain.h"

namespace nestor::library {

// Panels of weights of unequal widths can't follow each other through all products as one loop. Where weights
// come from behind the second-level cache, that costs more than a narrower tile does. (Cascade Lake: 512
// channels at 7, by 8 x 3 of 32 blocks 7 % more time than by 8 x 2; 200 at 28, whose 13 blocks have no
// divisor, by 9 x 1 30 % more than by 9 x 3.)
void even_columns(Tile& t, const BlockInfo& b, const Target& target) {
  if (!target.is_narrow() || !t.column) return;
  int64_t even = t.columns;
  while (t.column->extent % even != 0) --even;
  if (even == t.columns || 2 * even <= t.columns) return;
  int64_t constant = 0;
  for (const Access& a : b.accesses)
    if (a.constant && a.uses(*t.column)) constant += a.elements * nestor::bytes_of(a.buffer->type.dtype);
  if (constant <= target.l2_bytes) return;
  t.why_size += fmt::format("; {} columns instead of {} divide evenly, so that each panel has a next one",
                            even, t.columns);
  t.columns = even;
}

// Of one tile that takes all columns there is no next panel of weights to ask for. Where these come from
// behind the second-level cache, far away, it takes half of the columns, and more rows. (Cascade Lake: 64@33,
// 9 tiles by 9 x 2 vectors instead of 3 x 4, 12 % less time.)
void leave_next_panel(Tile& t, const BlockInfo& b, const Target& target) {
  if (!target.is_narrow() || !target.far_l3() || !t.row || !t.column) return;
  if (t.columns < t.column->extent || t.columns < 2) return;
  Tile narrow = t;
  narrow.columns = t.columns / 2;
  while (t.column->extent % narrow.columns != 0) --narrow.columns;
  constexpr int64_t kLeastRows = 7;  // fewer leave no slots beside the loads (64@17, 5 tiles: 5 % more time)
  const int64_t fit = (target.vector_registers - 1) / narrow.columns - 1;
  narrow.rows = ceil_div(t.row->extent, ceil_div(t.row->extent, fit));
  if (narrow.rows < kLeastRows) return;
  if (streamed(b, narrow, target).empty() && used_by_few(b, narrow, target).empty()) return;
  narrow.why_size +=
      fmt::format("; with {} x {} there is a next panel to prefetch", narrow.rows, narrow.columns);
  t = narrow;
}

void widen_for_rests(Tile& t, const Target& target) {
  constexpr int64_t kMostColumns = 4, kLeastRows = 6;
  if (!t.row || !t.column) return;
  for (int64_t n = std::min(kMostColumns, t.column->extent); n > t.columns; --n) {
    const int64_t rows = (target.vector_registers - 1) / n - 1;
    if (rows < kLeastRows || t.column->extent % n != 0) continue;
    t.why_size = fmt::format("{} x {} sums fit in {} registers, and {} of a rest of one row are enough", rows,
                             n, target.vector_registers, n);
    t.rows = rows;
    t.columns = n;
    return;
  }
}

}  // namespace nestor::library
