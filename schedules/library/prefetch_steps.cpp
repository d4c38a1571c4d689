// A wide operand of a product with few rows, an image times the weights of a few filters, comes from behind
// the second-level cache and is used by few tiles of rows: a panel of some lines of each row, the rows apart,
// which no prefetcher foresees. Where the third level is far, much of the second may have gone, and what is
// there comes late enough. What a later step of the reduction reads is asked for as many steps ahead as
// the lines take to come. (Granite Rapids: 25x271x3072 by 9 x 3 30 % less time, 42x256x6144 40 %; steps ahead
// 8 to 16 alike. Cascade Lake, 16x397x917 by 8 x 3: 12 steps ahead 5 to 7 % less time than 25, 12 less than
// 50. What fits the second level, 8x128x1531 by 8 x 3 30 % less time where it has gone, 48 where it stays;
// 6x200x1200 25 and 50, 8x96x2500 30 and 26; 2 to 4 rows of 36 to 300 steps up to 70 more.) Of several steps
// in one body (steps_at_once.cpp) all rows are asked for at once.
//
// Where it is near, and lines that few tiles of rows use come from behind the second level, the first steps
// of a panel come too late if only its own ask. Of short panels the same steps of later ones are asked for
// instead, if the first level holds them. (Zen 3, 11x64x15876, a 1x1 convolution: 1.05 to 0.53 ms, while
// others use the third level 1.8 to 0.76; 8x320x7225 31 % less time, 9x128x8192 16 to 24, 9x256x8192, 32 KB,
// 5; 25x271x3000, 69 KB, 10 more.)
//
// Each tile of rows asks again, for lines that are there already; with many tiles that costs more than it
// brings, and copies of panels serve them (operand_copy.cpp).
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

int64_t tiles_ahead(int64_t cycles) {
  constexpr int64_t kCyclesAhead = 1500, kMost = 4;
  return std::clamp<int64_t>(ceil_div(kCyclesAhead, cycles), 1, kMost);
}

void prefetch_steps(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                    const std::string& panels, const Target& target) {
  constexpr int64_t kMostTiles = 8, kLeastSteps = 32;
  constexpr int64_t kRowsFromNear = 5, kStepsFromNear = 64;  // at least, where it fits the second level
  const int64_t near_bytes = target.far_l3() ? target.l2_bytes / 4 : target.l2_bytes;
  const int64_t far_cycles = target.is_narrow() ? 200 : 300;
  if (!t.vector || !t.row || t.turned || t.vector->extent <= t.width) return;
  std::vector<const Iter*> steps = b.reduced();
  std::erase_if(steps, [](const Iter* i) { return i->extent == 1; });
  if (steps.size() != 1) return;
  const Iter& k = *steps[0];
  const bool several = extent_of(s, block, k.loop + "p") > 0;
  const std::string loop = k.loop + (several ? "p" : "");
  const int64_t at_once = several ? extent_of(s, block, k.loop + "s") : 1;
  if (extent_of(s, block, loop) * at_once < kLeastSteps) return;
  const int64_t vectors = ceil_div(t.width, lanes_of(b, target)) * t.columns;
  const int64_t sets = l1_sets(target);
  const int64_t cycles = std::max<int64_t>(1, rows_of(t) * vectors / kFmasPerCycle);
  for (const Access& a : analyze(s.func(), block).accesses) {
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
    if (a.write || a.constant || !find_param(s.func(), a.buffer) || size <= near_bytes) continue;
    if (size <= target.l2_bytes && (rows_of(t) < kRowsFromNear || k.extent < kStepsFromNear)) continue;
    const auto& accesses = b.accesses;
    const auto was = std::find_if(accesses.begin(), accesses.end(),
                                  [&](const Access& other) { return other.buffer == a.buffer; });
    if (was == accesses.end() || was->stride(*t.vector) != 1 || was->uses(*t.row)) continue;
    if (std::abs(was->stride(k).value_or(0)) <= t.width) continue;
    int64_t tiles = ceil_div(t.row->extent, t.rows);
    for (const Iter* i : b.spatial())
      if (i != t.vector && i != t.row && i != t.beside && !was->uses(*i)) tiles *= i->extent;
    if (tiles > kMostTiles) continue;
    const int64_t bytes = bytes_of(a.buffer->type.dtype), pitch = *was->stride(k) * bytes;
    const int64_t lines = ceil_div(vectors * lanes_of(b, target) * bytes, kLine);
    const int64_t panels_ahead = tiles_ahead(cycles * k.extent * tiles);
    if (!target.far_l3() && size > target.l2_bytes && extent_of(s, block, panels) > panels_ahead &&
        (1 + panels_ahead) * k.extent * lines * kLine <= target.l1_bytes) {
      s.because(
          fmt::format("its {} KiB come from beyond L2, strided by a row, and few rows use them: prefetched "
                      "{} panels ahead",
                      size / 1024, panels_ahead));
      if (s.try_step(fmt::format("prefetch {}.{} {} distance={} shares={}", block, panels, a.buffer->name,
                                 panels_ahead, loop)))
        continue;
    }
    int64_t ahead = std::clamp<int64_t>(ceil_div(far_cycles, cycles), 1, k.extent / 2);
    while (ahead > 1 && lines_in_a_set(pitch, ahead, sets, lines) > target.l1_ways * 3 / 4) --ahead;
    const int64_t distance = ceil_div(ahead, at_once);
    s.because(fmt::format(
        "its {} KiB don't come from L1, strided by a row; {} steps cover the latency of {} cycles",
        size / 1024, distance * at_once, far_cycles));
    s.try_step(fmt::format("prefetch {}.{} {} distance={}", block, loop, a.buffer->name, distance));
  }
}

}  // namespace nestor::library
