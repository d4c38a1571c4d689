// What blocks of rows of transformed tiles cost, by the bytes that come from behind the second-level cache:
// the constant operand once for each block, unless it stays beside one, and what is transformed where a block
// is too large.
//
// Constants are asked for a panel ahead and hide behind their uses, while lines that were written are fetched
// before; a far third level does that slowly, a near one is full long before its size where others share it.
// So several blocks pay, behind a far one also some that leave rows over.
//
// (Cascade Lake: 192-64@56 by one row of 14 instead of all 30 % less time, 64-256@56 and 128-128@56 10 to 20;
// 192-64@28 by 3 rows of 7 20, 128-64@28 17, 128-128@28 and 96-160@28 8; 192-192@28 and @56, whose weights
// are many, are as fast either way. Zen 4: 256-64@56 by one row of 14 24 % less, 64-256@56 18, 256-256@56 and
// 128-128@112, by one of 28, 15 to 20; 8-256@119 by one of 30 50.)
//
// Where cores share what is inside a block, each reads what others wrote. (Two threads, Cascade Lake:
// 192-64@28 by 3 rows of 7, shared, 50 % more time than by blocks of 2 rows, two for each, 128-128@28 47,
// 128-64@28 13; 192-64@56 by 3 rows of 14 27 % more than by one.) That costs less where each meets its own
// part again, and a wide core gets it while it works on. (Two threads, Emerald Rapids, of phases in
// neighbouring parts: 128-128@28 as a whole 24 % less time than by blocks of 2 rows, 96-160@28 and 192-192@28
// as much, 64-64@28 23 % more than by one row, 128-64@28 16.)
#include <algorithm>

#include "nestor/target.h"
#include "schedules/library/transformed_chain.h"

namespace nestor::library {

namespace {

// Behind a near third level panels of weights, asked for ahead, hide behind a few uses; what is transformed
// waits for its lines at every write.
double traffic_near(const TransformedBlocks& b, int64_t stays, const Target& target) {
  constexpr double kToHide = 16, kLeastShown = 0.1, kFromMemory = 4, kOfSpills = 3;
  const double shown = std::max(kLeastShown, 1 - static_cast<double>(b.tiles) / kToHide);
  const double constant =
      b.bytes + b.constant > target.l2_bytes ? static_cast<double>(b.count * b.constant) * shown : 0;
  const double gone = 1 - static_cast<double>(stays) / static_cast<double>(b.bytes);
  return constant * (b.constant > target.l3_bytes ? kFromMemory : 1) +
         kOfSpills * static_cast<double>(b.moved) * std::max(0.0, gone);
}

}  // namespace

double cost_of_blocks(const TransformedBlocks& b, const Target& target) {
  constexpr double kToHide = 48, kLeastShown = 0.25, kFromMemory = 1.4;
  constexpr double kBytesPerCycle = 8;  // behind a far third level, at once for products and for what passes
  constexpr int64_t kPartOfL3 = 4;      // that stays there
  const int64_t stays = target.l2_bytes * 3 / 4;
  if (!target.far_l3()) return traffic_near(b, stays, target);
  const bool narrow = target.is_narrow();
  const double of_spills = narrow ? 5 : 3, of_crossing = narrow ? 5 : 1;
  const auto moved = static_cast<double>(b.moved);
  const double constant =
      b.bytes + b.constant > target.l2_bytes ? static_cast<double>(b.count * b.constant) : 0;
  const double shown = std::max(kLeastShown, 1 - static_cast<double>(b.tiles) / kToHide);
  const double from = kPartOfL3 * b.constant > target.l3_bytes ? kFromMemory : 1;
  const double crossing = moved * static_cast<double>(b.cores - 1) / static_cast<double>(b.cores);
  return (narrow ? 0 : b.cycles * kBytesPerCycle) + constant * shown * from + of_crossing * crossing +
         (b.bytes > stays ? of_spills * (moved - static_cast<double>(stays)) : 0);
}

}  // namespace nestor::library
