// Rows of an operand that lie dense along the reduction, a matrix's, pass once for each tile of columns.
// Where they don't stay in the second-level cache meanwhile, they come from behind it each time, from as many
// places as the tile has rows. The machine foresees some such streams, but not rows that are a multiple of a
// page apart, and none across the end of a page. So the lines of all rows are asked for ahead, as many for
// each line of the reduction as the tile has rows (Zen 5, 2048^3: 8 to 15 % less time; 512x512x4096: 10 %;
// rows that lie well: 0 to 3 %). They are the next tile's: a few lines ahead in the same rows, each tile
// would begin with lines that nobody asked for. (Zen 4: 2048^3 5 to 7 % less time than 3 lines ahead, 512^3
// and 1024^3 3.)
//
// Short rows of which all tiles of columns pass before the next tile's rows come from behind the second-level
// cache once, at its beginning; while these pass, the next tile's are asked for (Zen 4, 20000x64x160 3 % less
// time, 9000x64x256 4, 12 products of 128x64x128 2 to 8).
//
// A core that takes up few micro-operations a cycle loses more by asking than it gains; most of its tiles
// have few rows, which the machine foresees. (Cascade Lake, 6 rows: 2048^3 5 % less time without, 1009^3 and
// 1024^3 3.) For the same reason it asks for its share of a panel more rarely.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kLeastLines = 8;   // of a row: the first ones nobody asks for
constexpr int64_t kFarCycles = 400;  // that a line takes from behind the second-level cache
constexpr int64_t kPartOfL2 = 8;     // that the rows of a tile take at most, if they come a tile ahead
constexpr int64_t kSteps = 16, kStepsOnNarrow = 64;

}  // namespace

RowsAhead rows_ahead(const BlockInfo& b, const Tile& t, const TileWords& words, int64_t block,
                     const Target& target) {
  RowsAhead none, ahead;
  if (!t.vector || !t.row || t.turned || t.taps || b.reduced().empty()) return none;
  const Iter &k = *b.reduced().back(), &wide = t.column ? *t.column : *t.vector;
  if (k.loop.empty() || words.blocks.count(k.loop)) return none;
  for (const Access& a : b.accesses) {
    const int64_t bytes = bytes_of(a.buffer->type.dtype), line = kLine / bytes;
    if (target.is_narrow() || a.write || a.constant || !a.uses(*t.row) || a.uses(*t.vector) || a.uses(wide))
      continue;
    if (a.stride(k) != 1 || k.extent < kLeastLines * line || wide.extent <= (t.column ? t.columns : t.width))
      continue;
    if (block > 0 || a.elements * bytes <= target.l2_bytes / 2 || (ahead.line != 0 && ahead.line != line))
      continue;
    ahead.loop = k.loop;
    ahead.line = line;
    ahead.buffers.push_back(a.buffer);
  }
  if (ahead.buffers.empty()) {
    // As many steps as share what little is asked for of a panel.
    const int64_t steps = target.is_narrow() && k.extent >= 2 * kStepsOnNarrow ? kStepsOnNarrow : kSteps;
    if (b.reduced().size() > 1 || k.extent < 2 * steps || streamed(b, t, target).empty()) return none;
    return {k.loop, steps, 0, {}, fmt::format("one prefetch in {} steps is enough for each line", steps)};
  }
  const int64_t vectors = ceil_div(t.width, lanes_of(b, target)) * t.columns;
  const int64_t cycles = std::max<int64_t>(1, ahead.line * rows_of(t) * vectors / kFmasPerCycle);
  ahead.distance = ceil_div(kFarCycles, cycles);
  ahead.why = fmt::format("{} steps use one line of each row, in {} cycles", ahead.line, cycles);
  return ahead;
}

void prefetch_rows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                   const RowsAhead& ahead, const std::string& row_tiles, const Target& target) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  const bool tiles = std::any_of(loops.begin(), loops.end(),
                                 [&](const LoopInfo& l) { return l.name == row_tiles && l.extent > 1; });
  for (const Buffer& buffer : ahead.buffers) {
    const int64_t bytes = b.reduction_size() * rows_of(t) * bytes_of(buffer->type.dtype);
    if (tiles && b.reduced().size() == 1 && bytes <= target.l2_bytes / kPartOfL2) {
      s.because(fmt::format(
          "rows come from beyond L2: the next tile's, {:.1f} KiB, are prefetched while this one's are used",
          static_cast<double>(bytes) / 1024));
      s(fmt::format("prefetch {0}.{1} {2} distance=1 shares={3}0", block, row_tiles, buffer->name,
                    ahead.loop));
    } else {
      s.because(fmt::format("rows come from beyond L2, with a latency of {} cycles: {} lines ahead",
                            kFarCycles, ahead.distance));
      s(fmt::format("prefetch {}.{}0 {} distance={}", block, ahead.loop, buffer->name, ahead.distance));
    }
  }
}

void prefetch_next_rows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                        const std::vector<std::string>& outer, const std::string& row_tiles,
                        const Target& target) {
  constexpr int64_t kLeastTiles = 4, kNear = 4;  // parts of the second-level cache
  if (target.is_narrow() || !t.vector || !t.row || t.turned || t.taps || b.reduced().size() != 1) return;
  if (row_tiles.empty() || outer.size() < 2 || outer[outer.size() - 2] != row_tiles) return;
  const Iter& k = *b.reduced().back();
  const std::string& column_tiles = outer.back();
  if (extent_of(s, block, row_tiles) < kLeastTiles || extent_of(s, block, column_tiles) < 2) return;
  for (const Access& a : b.accesses) {
    const int64_t bytes = bytes_of(a.buffer->type.dtype);
    const bool row = !a.write && a.uses(*t.row) && !a.uses(*t.vector) && a.stride(k) == 1;
    if (!row || k.extent * bytes >= kLeastLines * kLine || a.elements * bytes <= target.l2_bytes / kNear)
      continue;
    s.because(
        fmt::format("rows come from beyond L2: the next tile's, {:.1f} KiB, are prefetched while all tiles "
                    "of columns use this one's",
                    static_cast<double>(k.extent * rows_of(t) * bytes) / 1024));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", block, row_tiles, a.buffer->name,
                           column_tiles));
  }
}

}  // namespace nestor::library
