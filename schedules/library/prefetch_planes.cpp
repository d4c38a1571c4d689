// Few filters over an image in planes, with a stride: lanes are filters, rows a line's pixels, and each step
// reads a line or two of another plane, on another page, which no prefetcher foresees. From behind the
// second-level cache each step would wait, for the translation as well. So what a later step reads is asked
// for, as many steps ahead as a line from afar takes. (Emerald Rapids, 1x1 with stride 2, 375-7@78 325 to 236
// us, 4 steps ahead 248, 8 and 16 alike. Where lanes are pixels 0 to 9 % less time; they read several lines.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile.h"

namespace nestor::library {

void prefetch_planes(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                     const Target& target) {
  constexpr int64_t kFarCycles = 200, kUnasked = 4;  // cycles of a line; steps for each that goes without
  if (!target.far_l3() || !t.vector || !t.row || t.column || t.turned || t.taps) return;
  if (t.vector->extent > t.width) return;  // each tile of filters would ask again
  std::vector<const Iter*> steps = b.reduced();
  std::erase_if(steps, [](const Iter* i) { return i->extent == 1; });
  if (steps.size() != 1 || extent_of(s, block, steps[0]->loop) < 2 * kUnasked) return;
  const Iter& k = *steps[0];
  const int64_t vectors = ceil_div(t.width, lanes_of(b, target));
  const int64_t cycles = std::max<int64_t>(1, rows_of(t) * vectors / kFmasPerCycle);
  for (const Access& a : analyze(s.func(), block).accesses) {
    const int64_t bytes = bytes_of(a.buffer->type.dtype);
    if (a.write || a.constant || !find_param(s.func(), a.buffer)) continue;
    if (a.elements * bytes <= target.l2_bytes * 3 / 4) continue;
    const auto was = std::find_if(b.accesses.begin(), b.accesses.end(),
                                  [&](const Access& other) { return other.buffer == a.buffer; });
    if (was == b.accesses.end() || was->uses(*t.vector) || !was->uses(*t.row)) continue;
    if (std::abs(was->stride(k).value_or(0)) * bytes < kPage) continue;
    if (std::abs(was->stride(*t.row).value_or(0)) < 2) continue;
    const int64_t ahead = std::clamp<int64_t>(ceil_div(kFarCycles, cycles), 1, k.extent / kUnasked);
    s.because(
        fmt::format("its {} KiB come from beyond L2, and each step's from another page; {} steps of {} "
                    "cycles cover the latency of {}",
                    a.elements * bytes / 1024, ahead, cycles, kFarCycles));
    s.try_step(fmt::format("prefetch {}.{} {} distance={}", block, k.loop, a.buffer->name, ahead));
  }
}

}  // namespace nestor::library
