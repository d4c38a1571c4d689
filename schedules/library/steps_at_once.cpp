// A step of a register tile's reduction is some twenty multiply-adds, and three micro-operations that count,
// compare and jump. A core that takes up few micro-operations a cycle has hardly any left for those, less so
// where its other thread takes half, and what stands behind a jump waits for the next cycle. So a body is
// several steps.
//
// Narrow cores: two. (Cascade Lake, beside a busy other thread: 64^3 9 % less time, 256^3 4, 12 times
// 128x64x128 6; alone 0 to 2; attention of heads of 112 to 256 elements 4 to 6, alone 1. Four steps are no
// faster, eight 5 % slower.) LLVM then has loads of the second step among the first's multiply-adds, for
// which registers must be left: else it spills (128x768x3072 by 9 x 3 vectors, 31 of 32 registers, 40 % more
// time); not so of 16 registers, of tiles of 4 x 3 and 6 x 2 (AVX2, 1024^3: 10 to 14 % less time for two
// steps), but of those of one vector even where some are left (12 x 1: a fifth to two thirds more). Beside
// part of a vector, half as long, it always does: accumulators change places between the steps
// (500x300x40 2.3 times the time).
//
// A wide core with 16 registers has its slots taken by twelve multiply-adds and eight loads in six cycles as
// soon as its other thread takes half of them: four. (Zen 3, beside a busy other thread: 256^3 25 % less
// time, two steps 17, eight and sixteen as four; 512^3 8, 128x768x768 6, 37x129x65 9; alone 0 to 2.) A loop
// inside of others, over a block's channels, is paid as often as it ends: four steps of it are enough to help
// windows (3x3 256@14 22, 512@7 13, 64@56 3 to 10, 64-128@56 with stride 2 12), and without windows a block
// of 8 is one body (1x1 2048-512@7 13, where four take 4; 512-128@28 7, where four take none; Winograd's
// 256@14 11, where four take 9; 14 x 1, 256-8@14 8). Windows' would share elements of many taps, which
// spill: 1.2 to 1.6 times the time. Where the taps of a line are written out, more than twelve steps win
// nothing and take the compiler long (7x7 31-34@82 0.5 to 2 s).
//
// Rows apart, of an operand that isn't packed, are foreseen by where one instruction loads from in each
// iteration, up to some distance: two steps (24x256x1536 6 % less time, where four take as much more;
// 24x256x512 8 and 12, 64x256x256 13 and 22), and one where these push each other out of the cache (1x1
// 128-32@128x16, 8 KiB apart, 37 % more time for two; @126x16 11 less).
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kLeastSteps = 32;  // of a loop by itself (16 steps: 3 to 4 % more time)
constexpr int64_t kNear = 2048;      // bytes from step to step, beyond which each is foreseen by itself
constexpr int64_t kManyBlocks = 4;   // 11-63@101 by 5x5, 8 and 3 channels: 5 % more time
constexpr int64_t kHalfWay = 2048;   // bytes: lines so far apart share two sets of the first-level cache

// Whether windows slide over some operand. A part of a reduction is an iterator of all operands.
bool slides_windows(const BlockInfo& b) {
  std::vector<const Access*> operands;
  for (const Access& a : b.accesses)
    if (!a.write) operands.push_back(&a);
  for (const Iter* i : b.spatial()) {
    const auto uses = [&](const Access* a) { return a->uses(*i); };
    if (i->extent == 1 || std::all_of(operands.begin(), operands.end(), uses)) continue;
    for (const Iter* r : b.reduced())
      for (const Access* a : operands)
        if (r->extent > 1 && a->slides_along(*r, *i)) return true;
  }
  return false;
}

// How many steps one body is, by how far operands go on from one to the next. Few blocks of which the last
// isn't full are mostly code for that one.
int64_t at_once_in(const Schedule& s, const BlockInfo& b, const std::string& loop, const Target& target) {
  const int64_t steps = extent_of(s, b.name, loop);
  int64_t most = steps_of_body(target);
  for (const Iter* r : b.reduced()) {
    if (r->extent == 1 || (r->loop != loop && (!r->loop.empty() || b.iter(loop)))) continue;
    if (!target.is_narrow() && r->extent % steps != 0 && r->extent < kManyBlocks * steps) return 1;
    for (const Access& a : b.accesses) {
      if (a.constant || !find_param(s.func(), a.buffer)) continue;  // packed
      const int64_t bytes = std::abs(a.stride(*r).value_or(0)) * bytes_of(a.buffer->type.dtype);
      if (bytes > kNear) most = std::min<int64_t>(most, target.is_narrow() || bytes % kHalfWay != 0 ? 2 : 1);
    }
  }
  return most;
}

// The taps around the loop that are written out, as its steps are then as often, and whether it stands
// directly inside of them.
std::pair<int64_t, bool> taps_around(const Schedule& s, const std::string& block, const std::string& loop) {
  std::pair<int64_t, bool> taps{1, false};
  for (const LoopInfo& l : loops_of(s.func(), block)) {
    if (l.name == loop) break;
    taps.second = l.kind == ForKind::unrolled;
    if (taps.second) taps.first *= l.extent;
  }
  return taps;
}

}  // namespace

void steps_at_once(Schedule& s, const std::string& block, const Tile& t, const std::string& loop,
                   const Target& target) {
  if (!t.vector) return;
  const BlockInfo b = analyze(s.func(), block);
  if (b.has_shift && extent_of(s, block, loop) <= kFewSteps) {
    s.because("the numbers of a byte are read together");
    if (s.try_step(fmt::format("unroll {}.{}", block, loop))) return;
  }
  const int64_t lanes = lanes_of(b, target);
  if (!ends_in_part(t.vector->extent, t.width, lanes))
    steps_at_once(s, block, rows_of(t), ceil_div(t.width, lanes) * t.columns, loop, target);
}

void steps_at_once(Schedule& s, const std::string& block, int64_t rows, int64_t vectors,
                   const std::string& loop, const Target& target) {
  if (steps_of_body(target) < 2) return;
  if (rows * vectors + vectors + 1 + spare_for_steps(target) > target.vector_registers) return;
  const BlockInfo b = analyze(s.func(), block);
  const auto [taps, directly] = taps_around(s, block, loop);
  const int64_t steps = extent_of(s, block, loop), fit = kMostWritten / taps;
  const int64_t at_once = std::min(at_once_in(s, b, loop, target), fit < 4 ? std::min<int64_t>(fit, 2) : fit);
  const bool inside = steps < b.reduction_size(), short_bodies = inside && !target.is_narrow();
  const Iter* whole = b.iter(loop);
  if (!target.is_narrow() && whole && b.has_select && slides_along_any(b, *whole))
    return;  // it may end anywhere at a border
  const bool apart = !slides_windows(b) ? taps == 1 : whole && steps <= kFewInWindows && !directly;
  if (short_bodies && steps > 1 && steps <= kFewSteps && apart) {
    s.because(fmt::format("the {} steps of a block are too few for a loop", steps));
    s.try_step(fmt::format("unroll {}.{}", block, loop));
    return;
  }
  if (at_once < 2 || !may_have_steps_at_once(vectors, target)) return;
  if (steps < (short_bodies ? 2 * at_once : kLeastSteps)) return;
  Schedule more = s;
  more.because(fmt::format("unrolled, a step's {} micro-operations of overhead are paid once per {}",
                           kOfTheLoop, at_once == 2 ? "two" : "four"));
  if (!more.try_step(fmt::format("{0}p {0}s = split {1}.{0} [_, {2}] tail=peel", loop, block, at_once)))
    return;
  if (more.try_step(fmt::format("unroll {}.{}s", block, loop))) s = more;
}

}  // namespace nestor::library
