// Dot products along an image's blocks of channels (tile_dots.cpp): each block's lines lie in other pages
// than the one's before, and nothing foresees them. Where they come from far behind the second-level cache,
// those of a later step are asked for. Of an image that comes from memory, or of few blocks, so are those of
// the next tile: a tile's first blocks are asked for by none before them.
//
// (Zen 5, windows by strides of 2 and 3, 36 images of 4 to 40 MB beside oneDNN's: 3x1/3 of 239 channels to 6
// at 64x64 of 8 images 781 to 452 us; the next tile's, 3x3/3 of 82 to 6 at 64x64 of 16 1420 to 950, 2x2/2 of
// 126 to 3 at 56x56 of 16 1420 to 1000. Of images of which less than 16 MB is read that would take up to 60 %
// more, and up to 15 % more of those that stay near.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/dot_tile.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kCaches = 4;                          // second-level ones that are less than what is read
constexpr int64_t kCyclesNear = 110, kCyclesFar = 200;  // until a line comes from the third level, busy

}  // namespace

void prefetch_blocks(Schedule& s, const BlockInfo& sums, const DotTile& d,
                     const std::vector<std::string>& steps, int64_t rows, const Target& target) {
  const Buffer& image = image_of(sums).buffer;
  const int64_t bytes = bytes_of_image(sums);
  if (!find_param(s.func(), image) || bytes <= kCaches * target.l2_bytes) return;
  int64_t cycles = rows * d.column->extent / kFmasPerCycle;
  for (auto l = steps.rbegin(); l != steps.rend(); ++l) {
    const Iter* i = d.cut && *l == d.k->loop + "0" ? nullptr : sums.iter(*l);
    if (i && slides_along_any(sums, *i)) {
      cycles *= i->extent;
      continue;
    }
    const int64_t awaited = target.far_l3() ? kCyclesFar : kCyclesNear;
    const int64_t distance = ceil_div(awaited, std::max<int64_t>(1, cycles));
    const bool few = extent_of(s, sums.name, *l) <= distance;
    if (!few) {
      s.because(fmt::format(
          "each block's lines are in other pages, beyond L2; {} steps of {} cycles cover the latency of {}",
          distance, cycles, awaited));
      s.try_step(fmt::format("prefetch {}.{} {} distance={}", sums.name, *l, image->name, distance));
    }
    if (!few && bytes <= target.l3_bytes / 2) return;
    s.because(few ? fmt::format("a tile has only {} blocks: those of the next tile are prefetched",
                                extent_of(s, sums.name, *l))
                  : fmt::format("{} MiB come from memory; nothing else prefetches a tile's first blocks",
                                bytes >> 20));
    s.try_step(fmt::format("prefetch {}.{}0 {} distance=1", sums.name, d.row->loop, image->name));
    return;
  }
}

}  // namespace nestor::library
