// Weights come from behind the second-level cache in each call: even where they would fit, other layers run
// in between. A panel, what one tile of columns reads, passes from memory while the first tile of rows meets
// it, faster than memory gives it (128x768x3072: 9 bytes a cycle), and then lies in the cache for all others.
// So the next panel is asked for while all tiles of rows meet this one, a few lines at a time, evenly spread.
// (Zen 5: 128x768x3072 5 % less time, 32x768x3072 22 %, 3x3 over 512 channels at 7 20 to 30 %.)
//
// So is that of an operand that is copied as a whole before, near the third level. (Zen 3, 1024^3 1 to 7 %
// less time, 1536^3 2.) Of one that is copied by panels what the next copy reads is asked for, where
// operand_copy.cpp says so.
//
// With fewer rows a tile takes weights as fast as they come, and a panel ahead is too soon or too late. Where
// they come from far away, the core's own prefetchers don't fetch them as fast as the third level could give:
// lines are asked for a few thousand bytes ahead. (Cascade Lake, 4x768x3072 and 8x768x3072 20 to 25 % less
// time, 7x300x5000 6 to 18, Winograd's 512@6 of 9 tiles 33.)
//
// Few rows do little but read, from one place on: behind the end of each page a prefetcher starts anew. So
// panels are narrower than the tile, which reads from several at a time. (Cascade Lake, 1x4096x4096 by 4
// panels and 8 KB ahead 14 % less time, by 4 alone 9, 2 alone 8, ahead alone 8; 1x1024x1024 20, 1x768x3072
// 18, 1x4096x1000 16; asked for ahead anyway, 2x1024x1024 by 6 panels 10, 4x768x3072 by 5 8, 8x768x3072 by 3
// 7.) A wide core fetches lines by pairs: panels of two vectors, and those are asked for later. (Granite
// Rapids, by 4 panels and 2 KB ahead: 1x4096x4096 18 % less time, by 8 and 8 KB 8, by 2 15, 8 KB ahead alone
// none; 1x1024x1024 26, 1x768x3072 24, 1x4096x1000 19; 2x1024x1024 24, 4x768x3072 32; by 3 single ones
// 8x768x3072 31, by 2 11x1024x1024 32.) Near the third level so do short vectors, of which three and four
// panels are enough; asked for ahead as well they take longer. (Zen 3, 1x4096x4096 by 4 panels of two vectors
// 30 % less time, by 2 of four 14, by 8 25, by 4 and 8 KB ahead 7; 1x1024x1024 20 to 33, 1x768x3072 23;
// 2x2048x2048 by 4 single ones 25, by 2 of two 16; by 3 4x768x3072 26, 4x2048x2048 28.)
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
// Where fewer rows use it; 4 to 12 KB are alike, 1 to 4 of panels of two vectors.
constexpr int64_t kFewAhead = 8 << 10, kOfPairsAhead = 2 << 10;
constexpr int64_t kMostStreams = 6;
constexpr int64_t kManyTurns = 32;
constexpr int64_t kLeastPanel =
    32 << 10;  // its first lines aren't asked for (20 KB: 5 % more time, 40: 9 less)

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
      n += b.reduction_size() * rows_of(t) * bytes_of(a.buffer->type.dtype);
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
// cache. (Cascade Lake, 32 KB: 256@14 with panels of 16 KB and as much of rows, 14 % less time, 192@14 with
// 12 KB 7, 128@14 with 8 KB 2 to 5.)
bool ask_near(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t, const Buffer& buffer,
              int64_t bytes, const std::vector<LoopInfo>& inside, const Target& target) {
  if (!target.far_l3() || t.rows < t.row->extent) return false;
  // This one, and the next beside the results.
  const int64_t panels = target.is_narrow() ? 2 * bytes + rows_of(t) * t.columns * kLine : bytes;
  if (panels + rows_bytes(b, t) <= target.l1_bytes * 3 / 4) return false;
  const auto serial = [](const LoopInfo& l) { return l.kind == ForKind::serial && l.extent > 1; };
  std::vector<LoopInfo> loops;
  std::copy_if(inside.begin(), inside.end(), std::back_inserter(loops), serial);
  if (loops.size() < 2 || bytes / loops[0].extent > kAhead) return false;
  const int64_t distance = kAhead * loops[0].extent / bytes;
  s.because(fmt::format(
      "all rows use the same line of {}; prefetched {} KiB ahead it comes in time, and the rows stay in L1",
      buffer->name, kAhead / 1024));
  return s.try_step(fmt::format("prefetch {}.{} {} distance={} shares={}", block, loops[0].name, buffer->name,
                                distance, loops[1].name));
}

// Whether the vectors of a tile that few rows use lie in panels of two.
bool goes_by_pairs(int64_t vectors, const Target& target) {
  const int64_t least = target.far_l3() ? 4 : kMostStreams;
  return !target.is_narrow() && vectors >= least && vectors % 2 == 0;
}

int64_t bytes_that_stay(const Target& target) {
  return target.far_l3() ? std::min(target.l2_bytes / 2, kFarStays) : target.l2_bytes / 2;
}

// Whether an operand passes in panels that many rows use, and doesn't stay in the cache.
bool streams(const BlockInfo& b, const Access& a, const Tile& t, const Target& target) {
  if (!t.vector || !t.row) return false;
  const Iter& wide = t.column ? *t.column : *t.vector;
  if (a.write || !a.uses(wide) || a.uses(*t.row) || uses_of_line(b, a) < kLeastUses) return false;
  return a.elements * bytes_of(a.buffer->type.dtype) > bytes_that_stay(target) &&
         wide.extent > (t.column ? t.columns : t.width) && panel_bytes(b, a, t) <= target.l2_bytes * 3 / 4;
}

// Whether the panels of one iteration around their loop stay in the cache and are met in many, as by rows
// outside: all but the first meeting finds them there. (Zen 4, a ConvTranspose of 8 groups of 45 channels,
// two panels of 11 KiB met by 55 rows: asked for they take 13 to 16 % more time. MatMuls of 24 batches,
// panels met 4 to 15 times: 1 % less.)
bool stay_for_many(const BlockInfo& b, const Access& a, const Tile& t, const std::vector<LoopInfo>& loops,
                   size_t panels, int64_t bytes, const Target& target) {
  if (loops[panels].extent < 1 || bytes > bytes_that_stay(target)) return false;
  const auto meets = [&](const LoopInfo& l) {
    const Iter* i = walked_by(b, l.name);
    return i && !i->reduce && !a.uses(*i);
  };
  int64_t within = t.row && !a.uses(*t.row) && t.rows < t.row->extent ? t.rows : 1, around = 1;
  for (size_t l = panels + 1; l < loops.size(); ++l)
    if (meets(loops[l])) within *= std::max<int64_t>(1, loops[l].extent);
  // Between two iterations of loops around all that it moves with, all of it passes.
  for (size_t l = 0; l < panels; ++l) {
    if (!meets(loops[l])) {
      within *= around;
      break;
    }
    around *= std::max<int64_t>(1, loops[l].extent);
  }
  return uses_of_line(b, a) / within >= kManyTurns;
}

// What passes by panels, who reads it from afar, and under which name.
struct Passing {
  const Access* access;
  std::string block, name;
};

// Constants; near the third level what is copied as a whole before, and what is by panels that are asked for.
std::vector<Passing> passing(const BlockInfo& b, const Tile& t, const Target& target) {
  std::vector<Passing> out;
  for (const Access& a : b.accesses) {
    const std::string &name = a.buffer->name, copy = name + "_packed";
    const bool whole = !target.far_l3() && t.copies_whole(a.buffer);
    if (std::count(t.panels.begin(), t.panels.end(), a.buffer) > 0) {
      if (asks_for_panels(b, a, t, target)) out.push_back({&a, copy, name});
    } else if ((a.constant || whole) && streams(b, a, t, target)) {
      out.push_back({&a, b.name, whole ? copy : name});
    }
  }
  return out;
}

}  // namespace

std::vector<Buffer> streamed(const BlockInfo& b, const Tile& t, const Target& target) {
  std::vector<Buffer> out;
  for (const Access& a : b.accesses)
    if (a.constant && streams(b, a, t, target)) out.push_back(a.buffer);
  return out;
}

void stream_panels(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                   const std::string& panels, const Target& target) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  const auto outer =
      std::find_if(loops.begin(), loops.end(), [&](const LoopInfo& l) { return l.name == panels; });
  if (outer == loops.end()) return;  // threads share finer pieces
  const int64_t asks = target.far_l3() ? kMostAsks : 1;
  for (const auto& [access, reader, name] : passing(b, t, target)) {
    const int64_t lines = panel_bytes(b, *access, t) / kLine;
    int64_t iterations = 1, before = 1;
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
    if (stay_for_many(b, *access, t, loops, static_cast<size_t>(outer - loops.begin()),
                      outer->extent * lines * kLine, target))
      continue;
    if (ask_near(s, block, b, t, access->buffer, lines * kLine, {outer + 1, loops.end()}, target)) continue;
    s.because(
        fmt::format("the next panel of {}, {} KiB, is prefetched from memory while this one is used, {} "
                    "lines in {} portions",
                    name, lines * kLine / 1024, lines, iterations));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}{}", reader, panels, name,
                           reader == block ? "" : block + ".", shares));
  }
}

std::vector<Buffer> read_by_few(const BlockInfo& b, const Tile& t, const Target& target) {
  std::vector<Buffer> out;
  if (!(target.far_l3() || has_short_vectors(target)) || !t.vector || t.turned || t.taps) return out;
  const int64_t rows = t.row ? t.row->extent : 1;
  if (rows >= kLeastUses || t.rows < rows) return out;
  const Iter& wide = t.column ? *t.column : *t.vector;
  for (const Access& a : b.accesses)
    if (!a.write && a.constant && a.uses(wide) && uses_of_line(b, a) == rows &&
        a.elements * bytes_of(a.buffer->type.dtype) > bytes_that_stay(target) &&
        std::count(t.packed.begin(), t.packed.end(), a.buffer))
      out.push_back(a.buffer);
  return out;
}

std::vector<Buffer> used_by_few(const BlockInfo& b, const Tile& t, const Target& target) {
  return target.far_l3() ? read_by_few(b, t, target) : std::vector<Buffer>{};
}

int64_t streams_of_few(const BlockInfo& b, const Tile& t, const Target& target) {
  const int64_t vectors = t.width / lanes_of(b, target);
  if (t.column || vectors * lanes_of(b, target) != t.width || read_by_few(b, t, target).empty()) return 1;
  if (goes_by_pairs(vectors, target)) return vectors / 2;
  int64_t streams = std::min(vectors, kMostStreams);
  while (vectors % streams != 0) --streams;
  return streams;
}

void stream_for_few(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                    const Target& target) {
  for (const Buffer& buffer : used_by_few(b, t, target)) {
    std::vector<LoopInfo> loops;  // serial ones
    int64_t inside = 1;           // iterations of what stands in the innermost of these
    for (const LoopInfo& l : loops_of(s.func(), block)) {
      const bool serial = l.kind == ForKind::serial && l.extent > 1;
      inside = serial ? 1 : inside * std::max<int64_t>(1, l.extent);
      if (serial) loops.push_back(l);
    }
    int64_t bytes = 0;  // that an iteration of the loop reads which asks
    for (const Access& a : b.accesses)
      if (a.buffer == buffer) bytes = panel_bytes(b, a, t) / b.reduction_size();
    int64_t steps = inside / (std::max<int64_t>(1, t.rows) * t.columns * t.width);  // of it
    bytes *= steps;
    const bool pairs = !t.column && goes_by_pairs(t.width / lanes_of(b, target), target);
    const int64_t ahead = std::max(bytes, pairs ? kOfPairsAhead : kFewAhead);
    if (loops.empty() || bytes < kLine || bytes > kFewAhead) continue;
    size_t asks = loops.size() - 1;
    while (asks > 0 && steps * loops[asks].extent < b.reduction_size() &&
           bytes * loops[asks].extent <= std::min(kAhead, ahead)) {
      steps *= loops[asks].extent;
      bytes *= loops[asks--].extent;
    }
    if (steps * loops[asks].extent > b.reduction_size()) continue;  // it isn't the reduction's
    // Without shares it ends with the panel, else it goes on to the next.
    const bool shares = asks + 1 < loops.size();
    if (!shares && bytes / steps * b.reduction_size() < kLeastPanel) continue;
    s.because(
        fmt::format("few rows use a line of {}, which comes from beyond L2: it is prefetched {} KiB ahead, "
                    "for all panels",
                    buffer->name, ahead / 1024));
    s.try_step(fmt::format("prefetch {}.{} {} distance={}{}", block, loops[asks].name, buffer->name,
                           ahead / bytes, shares ? " shares=" + loops[asks + 1].name : ""));
  }
}

}  // namespace nestor::library
