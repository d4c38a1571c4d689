// What doesn't go past the caches (stream_output.cpp) is written to lines that may have been asked for
// before.
//
// A tile with a short sum writes its lines faster than they come from behind the second-level cache. So while
// one tile is computed, the lines that the next one writes are asked for, where the machine doesn't foresee
// them:
//
// Where rows begin at no lines, each store waits for two of them, and the ones behind it wait with it; where
// they begin at lines, a last cache keeps up. (Granite Rapids, 4000x16x1000: 2.9 to 2.1 ms, 2048x32x1003 1.5
// to 1.2; rows that begin at lines: 5 % gained or lost. Behind a near one as well, after sums of any length.
// Zen 3: 1777x128x1081 19 % less time, 3000x100x700 11, 1009x256x1009 10, 1009x512x1009 5; of 2.2 MB,
// 499x61x1087 33, 499x128x1087 23, 499x256x1087 14.)
//
// Behind a near one rows of a tile that share a page, with other lines between them, are too many streams for
// a page: narrow matrices, transposed convolutions by larger strides. (Zen 4: 8000x16x400 16 % less time,
// 10000x16x192 12, t4x4/4_16-64@32x50 24, t5x5/4g2_16-64@16x50 24, t3x3/3_32-64@64x50 18; 3 to 4 MB that one
// nest writes 5 to 10 % more, rows a page apart the same.)
//
// Rows that lie one after the other wait, too, once much passes through a near last cache: a core has fewer
// lines under way than a tile. They are asked for in shares. (Zen 5, blocks of 16 filters: 11 to 120 MB of
// convolutions of few channels 4 to 27 % less time, three of 18 0 to 2 more; at once half of that; under 8 MB
// none, up to 5 more. Rows of half a line each, AVX2's: up to 30 more.)
#include <fmt/format.h>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr int64_t kShortSum = 64;  // FMAs for each vector that is written

bool rows_begin_at_lines(const BlockInfo& writer) {
  for (const Access& a : writer.accesses)
    for (const Iter& i : writer.iters)
      if (a.write && i.extent > 1 && a.uses(i) && a.stride(i) != 1 &&
          a.stride(i).value_or(1) * bytes_of(a.buffer->type.dtype) % kLine != 0)
        return false;
  return true;
}

int64_t row_apart(const BlockInfo& w, const Iter* row) {
  return row ? write_of(w)->stride(*row).value_or(0) * bytes_of(w.output->type.dtype) : 0;
}

// Why lines are asked for, with how much the writer w makes; empty where they aren't.
std::string unforeseen(const BlockInfo& w, const Iter* row, int64_t fmas, const Target& target) {
  constexpr int64_t kLeast = 3, kLeastAlone = 5;  // second-level caches; where long vectors write all of it
  const int bytes = bytes_of(w.output->type.dtype);
  const int64_t written = bytes * w.instances();
  const bool begin_at_lines = rows_begin_at_lines(w), is_short = fmas <= kShortSum;
  if (target.far_l3()) {
    if (!is_short || written < kLeast * target.l2_bytes || begin_at_lines) return "";
    return fmt::format(
        "{} KiB of output come from L3 with high latency, in rows that aren't aligned to lines, after {} "
        "FMAs per vector",
        written / 1024, fmas);
  }
  const int64_t all = write_of(w)->elements * bytes;
  const int64_t apart = row_apart(w, row);
  const int64_t least =
      written < all || (!begin_at_lines && has_short_vectors(target)) ? kLeast : kLeastAlone;
  if (all < least * target.l2_bytes || apart < 2 * kLine) return "";
  if (!begin_at_lines && written >= kLeast * target.l2_bytes)
    return fmt::format(
        "{} KiB of output don't fit in L2, and rows aren't aligned to lines: each store waits for two lines",
        all / 1024);
  if (!is_short || 2 * apart > kPage) return "";
  return fmt::format(
      "{} KiB of output don't fit in L2, and rows of a tile, {} bytes apart, share a page, after {} FMAs per "
      "vector",
      all / 1024, apart, fmas);
}

// As above, for rows one after the other, whose lines the steps of the sum ask for in shares.
std::string unforeseen_run(const BlockInfo& w, const BlockInfo& b, int64_t apart, const Target& target) {
  constexpr int64_t kPart = 3;  // of the last cache, from which on lines come from behind it now and then
  if (target.far_l3() || apart >= 2 * kLine || !rows_begin_at_lines(w) || b.reduction_size() > kShortSum)
    return "";
  int64_t moved = 0;
  for (const Access& a : b.accesses) moved += a.elements * bytes_of(a.buffer->type.dtype);
  if (kPart * moved <= target.l3_bytes) return "";
  return fmt::format(
      "{} KiB go through a last-level cache of {}, and a tile has more lines than a core can fetch at once; "
      "each of the {} steps of a sum prefetches some",
      moved / 1024, target.l3_bytes / 1024, b.reduction_size());
}

// The innermost loop of a sum that is run through; empty if there is none.
std::string steps_of(const Schedule& s, const std::string& block, const std::string& tiles) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  for (auto l = loops.rbegin(); l != loops.rend() && l->name != tiles; ++l)
    if (l->kind == ForKind::serial && l->extent > 1) return l->name;
  return "";
}

}  // namespace

void send_output(Schedule& s, const BlockInfo& w, const Iter* row, const BlockInfo& b,
                 const std::string& tiles, const Target& target) {
  if (stream_output(s, w, row, b.reduction_size(), target)) return;
  constexpr int64_t kLeastTiles = 3;  // one after the other: nobody asks for the first one
  if (!w.output_is_param) return;
  if (extent_of(s, w.name, tiles) < kLeastTiles) return;
  const std::string step = fmt::format("prefetch {}.{} {} distance=1", w.name, tiles, w.output->name);
  if (const std::string why = unforeseen(w, row, b.reduction_size(), target); !why.empty()) {
    s.because(why);
    s.try_step(step);
    return;
  }
  const std::string steps = steps_of(s, b.name, tiles), why = unforeseen_run(w, b, row_apart(w, row), target);
  if (why.empty() || steps.empty()) return;
  s.because(why);
  s.try_step(fmt::format("{} shares={}.{}", step, b.name, steps));
}

}  // namespace nestor::library
