// What transformed products ask for ahead. Panels of weights follow each other through all products: as one
// loop, each has a next one to ask for.
//
// Where all tiles are transformed first, so many data lie between their writing and their reading that they
// don't stay in the second-level cache, and where threads share the products, others wrote half of them. So
// while the panels of one product pass, the tiles' data of the next are asked for: by each panel, since
// shares are those of one iteration. (Emerald Rapids, one thread and two: 128-128@28, 4 panels, 3 and 6 %
// less time, 128-192@28, 6, 1 and 8, 192-192@28, 6, 1 and 4, 256-256@14, 8, none and 3; 192-192@14, 12, 9 %
// more, 512@7 and 128-256@20, 16, 4.)
//
// A tile of results goes to a few short rows of the image, which nothing foresees. Behind a near third level
// each store waits for its line, unless it has been asked for: a row of tiles in the next block of filters
// while this one's are made, some lines with each tile. (Zen 3: 64@56 and @112 7 % less time, 32-64@112 9,
// 128@28 4, 256@14, whose output stays, none; of few channels, 8x4-320@20 and 20x8-448@8, 29.)
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/library/tails.h"
#include "schedules/library/transformed_chain.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kMostPanels = 8;

// What all tiles have of one product, if that stays in the first-level cache; else null.
const Access* tiles_of_product(const BlockInfo& b, const Tile& t, const Target& target) {
  if (!t.row) return nullptr;
  for (const Access& a : b.accesses)
    if (!a.write && !a.constant && a.uses(*t.row) &&
        b.reduction_size() * t.row->extent * bytes_of(a.buffer->type.dtype) <= target.l1_bytes)
      return &a;
  return nullptr;
}

void ask_for_next_product(Schedule& s, const BlockInfo& b, const Tile& t, const std::string& panels,
                          const Target& target) {
  const int64_t count = ceil_div(t.column->extent, t.columns);
  const Access* tiles = tiles_of_product(b, t, target);
  if (!target.far_l3() || target.is_narrow() || !tiles || count < 2 || count > kMostPanels) return;
  const std::string name = tiles->buffer->name;
  s.because(
      fmt::format("the tiles' data for the next product is fetched during the {} panels of this one", count));
  s.try_step(fmt::format("prefetch {}.{} {} distance={} shares={}", b.name, panels, name, count,
                         b.reduced().back()->loop));
}

}  // namespace

void stream_products(Schedule& s, const BlockInfo& b, const Tile& t, const ProductLoops& loops,
                     const Target& target) {
  std::vector<std::string>& around = *loops.around;
  const auto last = std::find(around.begin(), around.end(), loops.panels);
  const bool few = !used_by_few(b, t, target).empty();
  if (last == around.end() || (streamed(b, t, target).empty() && !few)) return;
  const std::string all = loops.panels + "s";
  const std::vector<std::string> fuse(around.begin(), last + 1);
  s.because("panels follow each other through all products");
  const bool ragged = std::any_of(
      fuse.begin(), fuse.end(), [&](const std::string& l) { return has_tail(s.func(), b.name + "_out", l); });
  const bool fused =
      !ragged && s.try_step(fmt::format("{} = fuse {}_out ({})", all, b.name, schedules::join(fuse)));
  if (fused) around.erase(around.begin(), last);
  if (fused) around.front() = all;
  stream_panels(s, b.name, b, t, fused ? all : loops.panels, target);
  if (few) stream_for_few(s, b.name, b, t, target);
  if (fused && loops.whole) ask_for_next_product(s, b, t, all, target);
}

void ask_for_output(Schedule& s, const BlockInfo& last, const OutputLoops& loops, const Target& target) {
  const int64_t bytes = last.instances() * bytes_of(last.output->type.dtype);
  if (target.far_l3() || 2 * bytes <= target.l2_bytes) return;
  s.because(fmt::format("{} KiB of output don't fit in L2", bytes / 1024));
  if (extent_of(s, last.name, loops.channels) > 1)
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", last.name, loops.channels,
                           last.output->name, loops.tiles));
  else
    s.try_step(fmt::format("prefetch {}.{} {} distance=1", last.name, loops.tiles, last.output->name));
}

}  // namespace nestor::library
