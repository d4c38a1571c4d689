// Of many images a core computes one or a few at a time, and reads them again and again meanwhile: they stay
// in its second-level cache. But they come to it from behind, a few lines of each plane or block of channels
// for each tile, which the machine doesn't foresee. So while one is computed, the next is asked for, in
// shares small enough to be no hindrance: it's there when it begins.
//
// Those that the second level holds twice beside weights and results, and of which enough is computed.
// (Zen 5, 1 MB, beside oneDNN's copy of them: 5x5/2 of 46 channels to 7 over 64 images of 32x32, two at a
// time, 1.6 to 3.5 ms, by what neighbours do, to 1.05; 3x3/2 of 19 to 256, 25 of 31x31, 10 % less time, 1x1
// of 128 to 58, 111 of 19x19, 5; 9 others 1 % more to 4 less. By one
// vector of filters, 16 FMAs a line, 1x1 of 320 to 13, 128 of 4x4, 9 more; of 0.41 MB, 3x3/2 of 405 to 6, 5
// more.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

// Whether what a sum reads lies in lines apart from each other: else the machine foresees them.
bool is_cut_up(const BlockInfo& b, const Access& a) {
  const std::vector<const Iter*> reduced = b.reduced();
  return std::any_of(reduced.begin(), reduced.end(), [&](const Iter* r) {
    return r->extent > 1 && a.uses(*r) &&
           std::abs(a.stride(*r).value_or(kLine)) * bytes_of(a.buffer->type.dtype) >= kLine;
  });
}

}  // namespace

bool prefetch_images(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                     const std::vector<std::string>& reduced, const std::vector<std::string>& taps,
                     const Target& target) {
  constexpr int64_t kLeastWork = 32, kMostSteps = 3;  // FMAs for each line, and steps that may ask for it
  if (target.far_l3() || !t.vector || t.turned) return false;
  const LoopInfo outer = loops_of(s.func(), block).front();
  const auto steps = std::find_if(reduced.begin(), reduced.end(), [&](const std::string& l) {
    return std::find(taps.begin(), taps.end(), l) == taps.end();
  });
  const Iter* over = walked_by(b, outer.name);
  if (steps == reduced.end() || !over || over->reduce || outer.extent < 2) return false;
  const BlockInfo now = analyze(s.func(), block);  // without the padding that was inlined
  int64_t products = 1;
  for (const Iter& i : now.iters) products *= i.extent;
  int64_t shares = 1;
  for (const LoopInfo& l : loops_of(s.func(), block)) {
    if (l.name != outer.name) shares *= l.extent;
    if (l.name == *steps) break;
  }
  bool asked = false;
  for (const Access& a : now.accesses) {
    if (a.write || a.constant || !find_param(s.func(), a.buffer)) continue;
    if (std::abs(a.stride(*over).value_or(0)) * over->extent != a.elements) continue;  // not the outermost
    if (!is_cut_up(now, a)) continue;
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype), each = ceil_div(size, outer.extent);
    if (size <= target.l2_bytes * 3 / 2 || each > target.l2_bytes * 3 / 8) continue;
    if (products / lanes_of(now, target) < kLeastWork * (size / kLine) ||
        kMostSteps * (each / kLine) < shares)
      continue;
    s.because(
        fmt::format("its {} KiB come from beyond L2, which also has room for the {} KiB of the next images",
                    size / 1024, each / 1024));
    asked |= s.try_step(
        fmt::format("prefetch {}.{} {} distance=1 shares={}", block, outer.name, a.buffer->name, *steps));
  }
  return asked;
}

}  // namespace nestor::library
