// An image that the second-level cache doesn't hold beside weights and results comes from behind it, a few
// lines of each plane or block of channels for a tile: too cut up to be foreseen by the machine. What the
// next steps over channels read is asked for in time (3x3 with stride 2 over 128 channels at 115: half the
// time; 1x1 over 320 at 121: two thirds. Granite Rapids, 1.6 MB in 2 of cache: 3x3 with stride 2 over 128
// channels at 56 and 1x1 over 512 at 28 8 to 9 % less; 0.8 MB: 3x3 up to 5 % more). A near third level gives
// what it holds in time, of which others may leave an eighth (Zen 4: 3x3 over 0.8 to 3.2 MB 1 to 4 % more
// time, over 17 channels at 93 30; 512 at 60 6 % less, 1x1 over 1024 at 40 13). But where windows move by
// more than one, a line is used few times: from twice the second-level cache on it doesn't come in time
// either (Zen 3, 3x3 with stride 2: 128-30@81 38 % less time, 96-64@56 23, in three dimensions 32-32@16x40x40
// 29; with stride 3, 100-64@90 42; 5x5 with stride 2, 96-32@90 24; of less, 48-64@57 40 more), of vectors of
// a line from one and a half on (Zen 5, 1 MB, stride 2: 128-128@56 and 128-256@56 9 % less time, 64-128@84 8;
// of 1.2 to 1.4 MB 3 less to 4 more, of 0.8 to 1.1 3 to 5 more), nor that of a smaller one where none slides.
// (Zen 3, 1x1, 0.8 to 3.9 MB: 256-64@56 36 % faster, 192-130@72 19, 512-128@28 and 1024-256@14 14, 512-128@28
// by 2 26, 64-64@112 1.) Nor does all of one that takes more than half of the cache while panels of weights
// pass through it, by short vectors. (384-384@14 10 % less time, 384-409@16 9 to 25; 256-512@14, 196 KB, up
// to as much more.) If few tiles of columns pass over a line, what is asked for is the same step's of tiles
// some 1500 cycles ahead: the first steps of a tile come too late if only its own ask. (By steps instead, of
// 48 cycles and 4 ahead: 156-32@105 2.3 times the time, 256-64@28 of 4 images 1.35, 1024-64@40 and 128-64 of
// 28x28x10 5 to 10 % more. Tiles ahead with more columns: 1024-256@14 10 to 20 % more, 320-320@60 and
// 275-167@123 3 to 11; of rows of few tiles, by stride 2: 512-16 of 36x25 and of 36x60 21, of 12 to 28 tiles
// 4 to 6.) One block of filters, of a line each, asks for the next tile, by each step inside of a block. (Zen
// 5, 48-16@94 and 98-14@95 15 % less time, 207-16@64 12; more blocks to 6 more, short vectors to 25.)
//
// Windows that leave rows or columns out are asked for in padded copies as well, unless these are made as
// they are used, and though a channel's lines reach as far as a sum's, where each channel has pages of its
// own. (Zen 5, few filters over planes: 7x5 with a dilation of 2, 128-8 of 8 images of 78x16 9.3 to 5.2 ms,
// 7x7, 128-9 of 3 of 60x64 6.2 to 5.6. Made as they are used, 64-8@200 1 % more, 1-16@1300 5; without a
// dilation 1 to 6.)
//
// Near the third level all of the next row of windows is asked for while this one is computed, where it is
// but a part of the second one, or taps stand outside of the steps over channels, each of which would ask
// again. (Zen 5, windows with stride 2, of 33 works of random shapes one 2 % more time, the others up to 19
// less, in the middle 6: 3x3, 128-128@56 6, 161-192@77 8, 320-8@41 9, 5x3, 192-14 of 2 of 113x61 11; taps
// outside, 7x3 with a dilation of 4, 141-7 of 2 of 111x39 0.87 to 0.66 ms. Of windows of one row or column,
// to 16 products a line, 8 to 15 % more; asked for by rows of the window where these are the innermost steps,
// 20 to 50; of those that move by one and leave rows out, 7x5, 128-8 of 8 of 78x16, 8.)
//
// Where no window slides, a step over a block's channels has as many lines asked for as the tile has rows.
// More than a core has under way, or lines whose page is not translated yet, hold up all that is behind them.
// So the steps inside ask for shares. (Emerald Rapids, 1x1 with stride 2, of 13 to 28 lines: 458-12@109 640
// to 540 us, 192-10@63 57 to 47, 320-448@107 5.9 to 5.5 ms; with stride 1, 441-12@80 649 to 580 us,
// 192-16@120 670 to 621; of 8 to 11, with many pages asked for as well: 407-47@80 481 to 411, 504-32@65 319
// to 262; with few, by stride 3, 162-60@94 6 % more, 477-49@49 3.)
//
// Windows of a channel each, or of those in one block, have no steps over such. Where the third level is far,
// what the next row of windows reads first is asked for in shares, with the steps of this row (Cascade Lake,
// 3x3 with stride 2, 96 at 112: 0.67 to 0.49 ms; without shares, all at once, 0.64; asking for lines to be
// written as well loses 5 %, stores past the caches 8). Tiles of rows and columns (tile_windows.cpp) neither
// gain nor lose by it. Not where several results of a channel read the same input (two: 10 to 23 % more
// time), windows share no rows (3x3 with stride 3: 11 to 17), or leave some out (5x5 with stride and dilation
// 2: 8 to 13). (Groups of 16 channels, 3x3 with stride 2: 224 at 98 9 to 13 % less time, 256 at 73 9 to 20;
// of 2, 256 at 41 9 to 13. With stride 1 the padding's conditions would stay inside the loop over channels:
// of 8, 72 at 52 2.5 times as long.)
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
#include <map>
#include <numeric>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

bool moves_by_one(const Access& a, const Iter& i) {
  return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) {
    const auto index = as_affine(e);
    return index && coefficient(*index, i.var) == 1;
  });
}

// Whether windows slide, and none of them moves by one.
bool windows_leap(const BlockInfo& b, const Access& a) {
  bool any = false;
  for (const Iter* r : b.reduced())
    for (const Iter* i : b.spatial()) {
      if (r->extent == 1 || i->extent == 1 || !a.slides_along(*r, *i)) continue;
      any = true;
      if (moves_by_one(a, *i)) return false;
    }
  return any;
}

// How much of an image a core finds beside weights and results in its second-level cache.
int64_t stays_of(const Target& target) {
  return target.l2_bytes * 3 / 4;
}

// The same of what the machine gives in time: windows that slide over an image use its lines several times.
int64_t comes_in_time(const BlockInfo& b, const Access& a, bool beside_stream, const Target& target) {
  constexpr int64_t kPartOfL3 = 8;
  if (target.far_l3()) return stays_of(target);
  if (!has_taps(b, a))
    return beside_stream && has_short_vectors(target) ? target.l2_bytes / 2 : stays_of(target);
  const int64_t sliding = std::max(stays_of(target), target.l3_bytes / kPartOfL3);
  const int64_t leaping = has_short_vectors(target) ? 2 * target.l2_bytes : target.l2_bytes * 3 / 2;
  return windows_leap(b, a) ? std::min(leaping, sliding) : sliding;
}

// The elements that one step of r reads lie further from those of the next than all of a sum's would reach if
// they were dense, or, where `pages` do, on others; and no window slides along it.
bool lies_apart(const BlockInfo& b, const Access& a, const Iter& r, bool pages = false) {
  const int64_t pitch = std::abs(a.stride(r).value_or(a.elements));
  const bool on_others = pages && pitch * bytes_of(a.buffer->type.dtype) >= kPage;
  if (!a.uses(r) || (pitch <= b.reduction_size() && !on_others)) return false;
  for (const Iter* i : b.spatial())
    if (a.slides_along(r, *i)) return false;
  return true;
}

// Whether all of it is there before the block begins.
bool was_made(const PrimFunc& f, const std::string& block, const Access& a) {
  const std::vector<std::string> writers = writers_of(f, a.buffer);
  return std::none_of(writers.begin(), writers.end(),
                      [&](const std::string& w) { return share_a_loop(f, block, w); });
}

// Whether windows that slide leave out rows or columns between their taps.
bool leaves_some_out(const BlockInfo& b, const Access& a) {
  for (const Iter* r : b.reduced())
    for (const Iter* i : b.spatial()) {
      if (r->extent < 2 || i->extent < 2 || !a.slides_along(*r, *i)) continue;
      for (const Expr& e : a.indices)
        if (const auto index = as_affine(e);
            index && coefficient(*index, i->var) != 0 && std::abs(coefficient(*index, r->var)) > 1)
          return true;
    }
  return false;
}

// How far an iterator goes in one step of the loop `loop` of `block` that walks `over`.
int64_t in_a_step(const Schedule& s, const std::string& block, const std::string& loop, const Iter& over,
                  const Iter& i, const Tile& t) {
  if (i.var == over.var) return ceil_div(i.extent, extent_of(s, block, loop));
  if (i.reduce) return i.extent;
  for (const Iter* of : {t.vector, t.row, t.beside, t.column})
    if (of && i.var == of->var) return in_tile(t, of);
  return 1;
}

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
    return stays_in_line(a, *r) || (lies_apart(b, a, *r) && !uses_lanes(b, a, t));
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

// Whether a plane of the image, from one step of `over` to the next, is one row of tiles.
bool is_one_row(const BlockInfo& now, const Access& a, const Iter& over, const Tile& t) {
  const std::vector<const Iter*> spatial = now.spatial();
  return std::none_of(spatial.begin(), spatial.end(), [&](const Iter* i) {
    return i->extent > 1 && i->var != t.row->var && a.uses(*i) &&
           std::abs(a.stride(*i).value_or(0)) < std::abs(a.stride(over).value_or(0));
  });
}

// The loops outside of a row of windows.
std::vector<LoopInfo> loops_around_row(const Schedule& s, const std::string& block,
                                       const std::string& row_tiles,
                                       const std::vector<std::string>& reduced) {
  std::vector<LoopInfo> out;
  for (const LoopInfo& l : loops_of(s.func(), block)) {
    if (l.name == row_tiles || std::find(reduced.begin(), reduced.end(), l.name) != reduced.end()) break;
    out.push_back(l);
  }
  return out;
}

// The loop whose next iteration has the next row of windows over `a`, and how much it reads; empty where rows
// lie in one line.
struct NextRow {
  std::string loop;
  int64_t bytes = 0;
};

NextRow next_row(const Schedule& s, const BlockInfo& b, const BlockInfo& now, const Access& a,
                 const std::string& row_tiles, const std::vector<std::string>& reduced) {
  NextRow out;
  std::map<const Iter*, int64_t> extents;
  for (const Iter& i : now.iters) extents[&i] = i.extent;
  for (const LoopInfo& l : loops_around_row(s, b.name, row_tiles, reduced)) {
    const Iter* of = walked_by(b, l.name);
    for (auto& [i, extent] : extents) {
      if (!of || i->var != of->var) continue;
      extent = ceil_div(extent, l.extent);
      if (std::abs(a.stride(*i).value_or(0)) * bytes_of(a.buffer->type.dtype) >= kLine)
        out = {l.name, bytes_read(a, extents, now)};
    }
  }
  return out;
}

// The loop whose steps ask in shares: a row of the window where channels of a block follow inside, as blocks
// are few, else `loop`, over channels.
template <class Loop, class IsLoop>
std::string shared_down_to(Loop loop, Loop end, const IsLoop& is_loop) {
  const Loop rows = std::find_if(loop + 1, end, is_loop);
  return rows != end && std::any_of(rows + 1, end, is_loop) ? *rows : *loop;
}

// Whether the loop `steps`, over the channels of a block, asks for `lines` in shares.
struct Shares {
  std::string option, why;  // empty: all at once
};

Shares shared_by(const Schedule& s, const BlockInfo& now, const Access& a, const std::string& steps,
                 int64_t lines, const Target& target) {
  constexpr int64_t kUnderWay = 12;  // lines to the first level that a core waits for: Skylake's
  if (!target.far_l3() || has_taps(now, a) || extent_of(s, now.name, steps) < 2) return {};
  if (lines > kUnderWay)
    return {" shares=" + steps,
            fmt::format("; {} lines at once are more than {} under way", lines, kUnderWay)};
  if (pages_of(a) > kPagesTranslated)
    return {" shares=" + steps,
            fmt::format("; of its {} pages {} stay translated, and lines at once wait for that", pages_of(a),
                        kPagesTranslated)};
  return {};
}

}  // namespace

bool prefetch_windows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                      const std::string& row_tiles, const std::vector<std::string>& reduced,
                      const std::vector<std::string>& taps, const Target& target) {
  constexpr int64_t kLeastWork = 2, kLeastWorkOfRow = 20;  // FMAs for each line that is asked for
  constexpr int64_t kPartOfL2 = 4;                         // that a row of windows takes at most
  constexpr int64_t kCyclesAhead = 150;                    // in which a line comes
  constexpr int64_t kFewPasses = 4;                        // of tiles of columns over the image
  constexpr int64_t kUnasked = 6;                          // steps for each that may go without
  constexpr int64_t kLongRow = 32;  // tiles, behind which those of the next row are cold
  if (!t.vector || !t.row || t.turned || reduced.size() < 2) return false;
  const auto is_loop = [&](const std::string& l) {
    return std::find(taps.begin(), taps.end(), l) == taps.end();
  };
  const auto loop = std::find_if(reduced.begin(), reduced.end() - 1, is_loop);
  if (loop == reduced.end() - 1 || extent_of(s, block, *loop) < 2) return false;
  bool asked = false;
  const bool beside_stream = !streamed(b, t, target).empty();
  const Iter* over = walked_by(b, *loop);
  const BlockInfo now = analyze(s.func(), block);  // without the padding that was inlined
  for (const Access& a : now.accesses) {
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
    const bool some_out = leaves_some_out(now, a);
    const bool whole = some_out ? was_made(s.func(), block, a) : find_param(s.func(), a.buffer) != nullptr;
    if (a.write || a.constant || !whole) continue;
    if (size <= comes_in_time(now, a, beside_stream, target)) continue;
    if (!over || !lies_apart(now, a, *over, some_out)) continue;
    std::map<const Iter*, int64_t> step;
    int64_t products = 1;
    for (const Iter& i : now.iters) products *= step[&i] = in_a_step(s, block, *loop, *over, i, t);
    const int64_t lines = bytes_read(a, step, now) / kLine;
    if (products / lanes_of(now, target) < kLeastWork * lines) continue;
    const int64_t cycles = std::max<int64_t>(1, products / lanes_of(now, target) / kFmasPerCycle);
    const int64_t steps = extent_of(s, block, *loop);
    const bool spread = !has_short_vectors(target) && !t.column && column_tiles(t) == 1;
    const int64_t tiles = spread ? 1 : tiles_ahead(cycles * steps);
    if (!target.far_l3() && !has_taps(now, a) && column_tiles(t) <= kFewPasses &&
        extent_of(s, block, row_tiles) > (is_one_row(now, a, *over, t) ? 1 : kLongRow) * tiles) {
      s.because(fmt::format(
          "its {} KiB come from behind the second-level cache, lie apart along {}, and are used by "
          "few tiles of columns, each for {} cycles: {} ahead, while this one is computed",
          size / 1024, *loop, cycles * steps, tiles));
      if (s.try_step(fmt::format("prefetch {}.{} {} distance={} shares={}", block, row_tiles, a.buffer->name,
                                 tiles, spread ? reduced.back() : *loop))) {
        asked = true;
        continue;
      }
    }
    NextRow row;
    if (!target.far_l3() && has_taps(now, a)) row = next_row(s, b, now, a, row_tiles, reduced);
    if (!row.loop.empty() &&
        (loop != reduced.begin() ||
         ((!some_out || windows_leap(now, a)) && kPartOfL2 * row.bytes <= target.l2_bytes &&
          products / lanes_of(now, target) >= kLeastWorkOfRow * lines))) {
      s.because(
          fmt::format("its {} KiB come from behind the second-level cache: the {} KiB of the next row of "
                      "windows while this one is computed",
                      size / 1024, row.bytes / 1024));
      asked |= s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", block, row.loop,
                                      a.buffer->name, shared_down_to(loop, reduced.end(), is_loop)));
      continue;
    }
    int64_t places = 1;  // each in a line of its own
    for (const auto& [i, size] : step) places *= !i->reduce && a.uses(*i) ? size : 1;
    const Shares shares = taps.empty() ? shared_by(s, now, a, reduced.back(), places, target) : Shares{};
    // What a step asks for last has half a step less to come, and the first steps of a tile nobody asks for.
    const int64_t distance = shares.option.empty()
                                 ? std::min(ceil_div(kCyclesAhead, cycles), steps - 1)
                                 : std::clamp<int64_t>(ceil_div(2 * kCyclesAhead + cycles, 2 * cycles), 1,
                                                       std::max<int64_t>(1, steps / kUnasked));
    s.because(
        fmt::format("its {} KiB come from behind the second-level cache, and lie apart along {}, of which "
                    "a step takes {} cycles{}",
                    size / 1024, *loop, cycles, shares.why));
    asked |= s.try_step(fmt::format("prefetch {}.{} {} distance={}{}", block, *loop, a.buffer->name, distance,
                                    shares.option));
  }
  return asked;
}

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
  const BlockInfo now = analyze(s.func(), block);
  for (const Access& a : now.accesses) {
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
    if (a.write || a.constant || !find_param(s.func(), a.buffer) || size <= stays_of(target)) continue;
    const bool large = !target.far_l3() && !has_short_vectors(target) && 8 * size > 13 * target.l2_bytes;
    if (!slides(now, a, t, large) || reads_again(now, a, t)) continue;
    if (!target.far_l3() && !large && !leaps(now, a)) continue;
    s.because(fmt::format("its {} KiB come from behind the second-level cache{}", size / 1024,
                          target.far_l3() ? ", far away"
                          : large         ? ", too late for rows of windows"
                                          : ", more of them for each row of windows than one"));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", block, around.back().name,
                           a.buffer->name, *steps));
  }
}

}  // namespace nestor::library
