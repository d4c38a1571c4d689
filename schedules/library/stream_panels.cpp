// Weights come from behind the second-level cache in each call: even where they would fit, other layers run
// in between. A panel, what one tile of columns reads, passes from memory while the first tile of rows meets
// it, faster than memory gives it (128x768x3072: 9 bytes a cycle), and then lies in the cache for all others.
// So the next panel is asked for while all tiles of rows meet this one, a few lines at a time, evenly spread.
// (Zen 5: 128x768x3072 5 % less time, 32x768x3072 22 %, 3x3 over 512 channels at 7 20 to 30 %.)
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kLeastUses = 12;  // of a line: fewer are done before it comes (768x3072, by 8 rows 20 %
                                    // more time, by 12 rows 25 % less)
// From one share to the next, where not every share has a line: what finds it is paid each time. Where every
// step has one, they queue least (Granite Rapids: Winograd's 256@14 and 512@7 10 % less time by step than by
// 16 steps, 16x768x3072 3 %; 128x768x3072, a line for 5 steps, 4 % more), where the third level is far even
// if some are asked for again (Cascade Lake: 128@28, a line for 2.25 steps, 6 % less, 28x768x3072 7 %).
constexpr int64_t kLeastCycles = 64, kMostAsks = 3;
// Of weights, in half of the second-level cache; behind a far third level no more than so many bytes (of 1 MB
// of cache: 64x188x414, whose 304 KiB stay, is 7 % slower if they are asked for).
constexpr int64_t kFarStays = 512 << 10;
constexpr int64_t kAhead = 4 << 10;  // of a panel: 2 KB are too late, of 10 KB some are gone again

int64_t panel_bytes(const BlockInfo& b, const Access& a, const Tile& t) {
  int64_t n = bytes_of(a.buffer->type.dtype);
  for (const Iter& i : b.iters)
    if (a.uses(i)) n *= &i == t.vector ? t.width : &i == t.column ? t.columns : i.reduce ? i.extent : 1;
  return n;
}

// What a tile reads of other operands all along the reduction.
int64_t rows_bytes(const BlockInfo& b, const Tile& t) {
  int64_t n = 0;
  for (const Access& a : b.accesses)
    if (!a.write && a.uses(*t.row) && !a.uses(*t.vector))
      n += b.reduction_size() * t.rows * bytes_of(a.buffer->type.dtype);
  return n;
}

int64_t uses_of_line(const BlockInfo& b, const Access& a) {
  int64_t n = 1;
  for (const Iter* i : b.spatial())
    if (!a.uses(*i)) n *= i->extent;
  return n;
}

// Where one tile has all rows, a line is used once: then it need only come in time, a few thousand bytes
// ahead in the panel, or in the next one. A whole panel ahead would push the rows out of a small first-level
// cache. (Cascade Lake, 32 KB: 256@14 with panels of 16 KB and as much of rows, 14 % less time.)
bool ask_near(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t, const Buffer& buffer,
              int64_t bytes, const std::vector<LoopInfo>& inside, const Target& target) {
  if (!target.far_l3() || t.rows < t.row->extent || bytes + rows_bytes(b, t) <= target.l1_bytes * 3 / 4)
    return false;
  const auto serial = [](const LoopInfo& l) { return l.kind == ForKind::serial && l.extent > 1; };
  std::vector<LoopInfo> loops;
  std::copy_if(inside.begin(), inside.end(), std::back_inserter(loops), serial);
  if (loops.size() < 2 || bytes / loops[0].extent > kAhead) return false;
  const int64_t distance = kAhead * loops[0].extent / bytes;
  s.because(fmt::format(
      "all rows use a line of {} at once; {} KiB ahead it comes in time, and leaves the rows in the "
      "first-level cache",
      buffer->name, kAhead / 1024));
  return s.try_step(fmt::format("prefetch {}.{} {} distance={} shares={}", block, loops[0].name, buffer->name,
                                distance, loops[1].name));
}

}  // namespace

std::vector<Buffer> streamed(const BlockInfo& b, const Tile& t, const Target& target) {
  std::vector<Buffer> out;
  if (!t.vector || !t.row) return out;
  const Iter& wide = t.column ? *t.column : *t.vector;
  for (const Access& a : b.accesses) {
    if (a.write || !a.constant || !a.uses(wide) || a.uses(*t.row) || uses_of_line(b, a) < kLeastUses)
      continue;
    const int64_t stays = target.far_l3() ? std::min(target.l2_bytes / 2, kFarStays) : target.l2_bytes / 2;
    if (a.elements * bytes_of(a.buffer->type.dtype) <= stays) continue;
    if (wide.extent > (t.column ? t.columns : t.width) && panel_bytes(b, a, t) <= target.l2_bytes * 3 / 4)
      out.push_back(a.buffer);
  }
  return out;
}

void stream_panels(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                   const std::string& panels, const Target& target) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  const auto outer =
      std::find_if(loops.begin(), loops.end(), [&](const LoopInfo& l) { return l.name == panels; });
  if (outer == loops.end()) return;  // threads share finer pieces
  const int64_t asks = target.far_l3() ? kMostAsks : 1;
  for (const Buffer& buffer : streamed(b, t, target)) {
    int64_t lines = 0, iterations = 1, before = 1;
    for (const Access& a : b.accesses)
      if (a.buffer == buffer) lines = panel_bytes(b, a, t) / kLine;
    std::string shares;
    for (auto l = outer + 1; l != loops.end(); ++l) {
      before *= std::max<int64_t>(1, l->extent);
      int64_t fmas = 1;
      for (auto inner = l + 1; inner != loops.end(); ++inner) fmas *= std::max<int64_t>(1, inner->extent);
      const bool often = fmas / lanes_of(b, target) / kFmasPerCycle < kLeastCycles && before > asks * lines;
      if (l->kind != ForKind::serial || l->extent <= 1 || often)
        continue;  // those of one iteration are dropped
      shares = l->name;
      iterations = before;
    }
    if (shares.empty()) continue;
    if (ask_near(s, block, b, t, buffer, lines * kLine, {outer + 1, loops.end()}, target)) continue;
    s.because(
        fmt::format("the next panel of {}, {} KiB, comes from memory while this one is used, {} lines in {} "
                    "shares",
                    buffer->name, lines * kLine / 1024, lines, iterations));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", block, panels, buffer->name, shares));
  }
}

}  // namespace nestor::library
