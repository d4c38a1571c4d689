// The taps along a line of a window, where no loop over channels is inside of them: each loop over them ends
// as soon as it began. (Cascade Lake, groups of 24 channels in planes, 3x3: 504 at 27, 384 at 47 and 48 at 95
// 15 to 20 % less time, 312 at 79 4; of 12, 192 at 28 20; of 6, 168 at 69 8; 5x5, 96 at 25 13 to 27, of 32 to
// 5 channels at 100 13; stride 2, 80 at 93 10, 272 at 96 3. Of 2 taps some take longer: 5x2 of 2 to 32 at
// 64x48 1.4 times, 3x2 of 2 to 81 at 30x14 1.5; 3x2 of 2 to 128 with stride 2 15 % less.)
//
// Where the rows' windows share elements, these stay from one tap to the next, and need room for it (37 of 8
// channels by 2x3, stride and dilation 2, 24 accumulators: 1.6 times as long). A tile of all registers spills
// (188 to 10 at 2408, 5 x 5 accumulators, 6 to 10 %).
#include <fmt/format.h>

#include "schedules/library/planner.h"

namespace nestor::library {

void taps_at_once(Schedule& s, const BlockInfo& b, const std::vector<std::string>& reduced, const Tile& t,
                  const Target& target) {
  constexpr int64_t kLeastTaps = 3, kMostTaps = 5;
  constexpr int64_t kRoom = 3;  // LLVM has loads of the next tap among this one's multiply-adds
  const int64_t steps = extent_of(s, b.name, reduced.back());
  if (!target.is_narrow() || reduced.size() < 3 || steps < kLeastTaps || steps > kMostTaps) return;
  const Iter* tap = walked_by(b, reduced.back());
  bool slides = false, shared = false;
  for (const Access& a : b.accesses)
    for (const Iter* i : b.spatial())
      if (tap && a.slides_along(*tap, *i)) {
        slides = true;
        shared = shared || (t.row && i->var == t.row->var);
      }
  const int64_t vectors = t.columns * (t.vector ? ceil_div(t.width, lanes_of(b, target)) : 1);
  const int64_t room = target.vector_registers - (rows_of(t) + 1) * vectors;
  if (!slides || room < kRoom || (shared && rows_of(t) + steps - 1 > room)) return;
  s.because(fmt::format("the {} kernel elements along a line are too few for a loop", steps));
  s.try_step(fmt::format("unroll {}.{}", b.name, reduced.back()));
}

}  // namespace nestor::library
