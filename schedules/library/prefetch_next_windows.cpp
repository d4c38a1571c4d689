// Windows of a channel each, or of those in one block, have no steps over channels that could ask, as
// prefetch_windows.cpp has them do. Where the third level is far, what the next row of windows reads first is
// asked for in shares, with the steps of this row (Cascade Lake, 3x3 with stride 2, 96 at 112: 0.67 to 0.49
// ms; without shares, all at once, 0.64; asking for lines to be written as well loses 5 %, stores past the
// caches 8). Tiles of rows and columns (tile_windows.cpp) neither gain nor lose by it. Not where several
// results of a channel read the same input (two: 10 to 23 % more time), windows share no rows (3x3 with
// stride 3: 11 to 17), or leave some out (5x5 with stride and dilation 2: 8 to 13). (Groups of 16 channels,
// 3x3 with stride 2: 224 at 98 9 to 13 % less time, 256 at 73 9 to 20; of 2, 256 at 41 9 to 13. With stride 1
// the padding's conditions would stay inside the loop over channels: of 8, 72 at 52 2.5 times as long.)
//
// Near the third level so do windows of a channel that move by more than one, for which more lines are new.
// (Zen 3, 3x3 with stride 2: 96 at 112 29 % less time, 64 at 112 23, 144 at 56 13, 5x5, 96 at 56 6; with
// stride 1 5 to 15 more, groups of 16 and 24 3 to 10.)
//
// Where a vector is a line, so do all windows over an image of 13/8 of the second level and more. (Zen 5, 1
// MB, 3x3 of a channel: 256 at 89 25 % less time, 320 at 91 43, 128 at 112 15; groups of 16, 256 at 104 28;
// of 8, 512 at 56 65, 64 at 112 20; of 4, 128 at 75 50; 5x5 of 4, 120 at 80 75; 7x7 of 510 to 13 at 45 4
// more. Of 1.1 to 1.5 MB 3 to 12 more as often as 5 less.)
//
// So are lines of planes, whose channels no loop outside of the taps walks. (Groups of 24 channels, 3x3 with
// stride 2: 264 at 58 11 % less time, 192 at 60 3 to 8; 5x5, 384 at 52 4; of 12, 5x5, 336 at 53 5. All at
// once up to 13 more where the second-level cache holds half of the image.)
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/windows.h"

namespace nestor::library {

namespace {

constexpr int64_t kMostAsks = 4;    // of shares for each line
constexpr int64_t kMostAtOnce = 8;  // lines that one share asks for

// Whether each step of r is a tap of windows that slide along i, share taps, and together leave out none.
bool is_tap(const Access& a, const Iter& r, const Iter& i) {
  return i.extent > 1 && std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) {
           const auto index = as_affine(e);
           if (!index) return false;
           const int64_t dilation = coefficient(*index, r.var), stride = coefficient(*index, i.var);
           return dilation > 0 && stride > 0 && stride <= dilation * (r.extent - 1) &&
                  std::gcd(stride, dilation) == 1;
         });
}

// Whether an iterator stays within the lines that it begins with.
bool stays_in_line(const Access& a, const Iter& i) {
  const auto stride = a.stride(i);
  return stride && std::abs(*stride) * i.extent * bytes_of(a.buffer->type.dtype) <= kLine;
}

// Whether taps alone are summed, of windows none of which moves by one.
bool leaps(const BlockInfo& b, const Access& a) {
  const std::vector<const Iter*> reduced = b.reduced(), spatial = b.spatial();
  return std::all_of(reduced.begin(), reduced.end(), [&](const Iter* r) {
    const auto moves = [&](const Iter* i) { return is_tap(a, *r, *i) && !moves_by_one(a, *i); };
    return r->extent == 1 || std::any_of(spatial.begin(), spatial.end(), moves);
  });
}

bool uses_lanes(const BlockInfo& now, const Access& a, const Tile& t) {
  return std::any_of(now.iters.begin(), now.iters.end(),
                     [&](const Iter& i) { return i.var == t.vector->var && a.uses(i); });
}

// Whether windows slide along what is summed, but for channels: those in one line, not of windows that move
// by one unless `all`, or planes whose elements are broadcast.
bool slides(const BlockInfo& b, const Access& a, const Tile& t, bool all) {
  const std::vector<const Iter*> reduced = b.reduced(), spatial = b.spatial();
  bool any = false, in_block = false, one_by_one = false;
  const bool each = std::all_of(reduced.begin(), reduced.end(), [&](const Iter* r) {
    bool tap = false;
    for (const Iter* i : spatial)
      if (r->extent > 1 && is_tap(a, *r, *i)) {
        tap = true;
        one_by_one |= moves_by_one(a, *i);
      }
    any |= tap;
    if (tap || r->extent == 1) return true;
    in_block |= stays_in_line(a, *r);
    return stays_in_line(a, *r) || (lies_apart(b, a, *r, b.reduction_size()) && !uses_lanes(b, a, t));
  });
  return any && each && (all || !(in_block && one_by_one));
}

// Whether another iterator than the lanes', along which no window slides, stays in the lines that were read
// before: several results of a channel.
bool reads_again(const BlockInfo& b, const Access& a, const Tile& t) {
  const int64_t bytes = bytes_of(a.buffer->type.dtype);
  const std::vector<const Iter*> spatial = b.spatial(), reduced = b.reduced();
  return std::any_of(spatial.begin(), spatial.end(), [&](const Iter* i) {
    return i->extent > 1 && i->var != t.vector->var && std::abs(a.stride(*i).value_or(0)) * bytes < kLine &&
           std::none_of(reduced.begin(), reduced.end(), [&](const Iter* r) { return is_tap(a, *r, *i); });
  });
}

// The loop whose iterations share the lines that those of `around` bring anew: `steps`, but the outermost
// that has one for each line where by steps each would be asked for several times, and each time it is found
// which (Zen 4, 64 volumes, 2x5x4 with stride 3: 180 lines in 640 rows of taps take 35 % less time than in
// 2560 taps), or near the third level the channels inside, where many would be asked for in one step, to
// queue (32 volumes, 3x1x2 by transposed strides of 1, 2, 1: 38 lines in 96 channels of taps take 8 % less
// than in 3 planes of taps).
std::string sharing(const Schedule& s, const BlockInfo& b, const Access& a, const std::string& around,
                    const std::string& steps, const std::string& channels) {
  const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
  int64_t outside = 1, iterations = 1, by_steps = 0;
  std::string found;
  bool inside = false;
  for (const LoopInfo& l : loops_of(s.func(), b.name)) {
    const Iter* i = walked_by(b, l.name);
    if (inside || !i || a.uses(*i)) (inside ? iterations : outside) *= std::max<int64_t>(1, l.extent);
    const bool shares = by_steps == 0 || l.name == channels;
    if (inside && shares && found.empty() && l.kind == ForKind::serial && l.extent > 1 &&
        iterations >= ceil_div(size, outside * kLine))
      found = l.name;
    if (l.name == steps) by_steps = iterations;
    inside |= l.name == around;
  }
  const int64_t lines = ceil_div(size, outside * kLine);
  const bool fit = by_steps <= kMostAsks * lines && lines <= kMostAtOnce * by_steps;
  return fit || found.empty() ? steps : found;
}

}  // namespace

void prefetch_next_windows(Schedule& s, const std::string& block, const Tile& t, const std::string& row_tiles,
                           const std::vector<std::string>& reduced, const std::vector<std::string>& taps,
                           const Target& target) {
  if (!t.vector || !t.row || t.turned) return;
  // Not each channel of a tap: there are far fewer lines.
  const auto is_tap_loop = [&](const std::string& l) {
    return std::find(taps.begin(), taps.end(), l) != taps.end();
  };
  const auto first_tap = std::find_if(reduced.begin(), reduced.end(), is_tap_loop);
  const auto inner = first_tap == reduced.begin() ? reduced.rbegin() : std::reverse_iterator(first_tap);
  const auto steps = std::find_if_not(inner, reduced.rend(), is_tap_loop);
  const std::vector<LoopInfo> around = loops_around_row(s, block, row_tiles, reduced);
  if (steps == reduced.rend() || around.empty()) return;
  const std::string channels = target.far_l3() || is_tap_loop(reduced.back()) ? "" : reduced.back();
  const BlockInfo now = analyze(s.func(), block);
  for (const Access& a : now.accesses) {
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
    if (a.write || a.constant || !find_param(s.func(), a.buffer) || size <= stays_of(target)) continue;
    const bool large = !target.far_l3() && !has_short_vectors(target) && 8 * size > 13 * target.l2_bytes;
    if (!slides(now, a, t, large) || reads_again(now, a, t)) continue;
    if (!target.far_l3() && !large && !leaps(now, a)) continue;
    s.because(fmt::format("its {} KiB come from beyond L2{}", size / 1024,
                          target.far_l3() ? ", with high latency"
                          : large         ? ", too late for rows of windows"
                                          : ", several for each row of windows"));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", block, around.back().name,
                           a.buffer->name, sharing(s, now, a, around.back().name, *steps, channels)));
  }
}

}  // namespace nestor::library
