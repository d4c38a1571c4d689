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
// 20 to 50; of those that move by one and leave rows out, 7x5, 128-8 of 8 of 78x16, 8.) Windows that move by
// one share most lines with the row before: 8 products for each are enough. (5x1, 128-13 of 8 of 19x64 14 %
// less time, 3x5, 32-4 of 8 of 138x64 31, groups of 6 channels, 3x3, 288 at 89 22; of six works one 1 more.)
//
// Of a quarter of a near third level, beside others' use of that, lines come from memory: then planes of a
// few lines are asked for too. (Zen 5, 32 MB, few filters: 3x2, 20 images of 282-7@21x38 8.4 to 2.2 ms, 7x2
// with stride 2, 830-5@59x54 3.6 to 0.8, 3x3, 48 of 256-8@23x23 14.5 to 5.0; of 2 to 6 MB from as fast to 15
// % more time.)
//
// What many tiles of rows read one after the other is there for most of them, and none asks for it: a matrix
// that takes most of the second level, read as it lies. (Zen 5: 941x256x959 57 % more time otherwise,
// 1882x384x632 43, 300x500x560 27.)
//
// Where no window slides, a step over a block's channels has as many lines asked for as the tile has rows.
// More than a core has under way, or lines whose page is not translated yet, hold up all that is behind them.
// So the steps inside ask for shares. (Emerald Rapids, 1x1 with stride 2, of 13 to 28 lines: 458-12@109 640
// to 540 us, 192-10@63 57 to 47, 320-448@107 5.9 to 5.5 ms; with stride 1, 441-12@80 649 to 580 us,
// 192-16@120 670 to 621; of 8 to 11, with many pages asked for as well: 407-47@80 481 to 411, 504-32@65 319
// to 262; with few, by stride 3, 162-60@94 6 % more, 477-49@49 3.)
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/windows.h"

namespace nestor::library {

namespace {

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

// How much of an image the machine gives in time: windows that slide over an image use its lines several
// times.
int64_t comes_in_time(const BlockInfo& b, const Access& a, bool beside_stream, const Target& target) {
  constexpr int64_t kPartOfL3 = 8;
  if (target.far_l3()) return stays_of(target);
  if (!has_taps(b, a))
    return beside_stream && has_short_vectors(target) ? target.l2_bytes / 2 : stays_of(target);
  const int64_t sliding = std::max(stays_of(target), target.l3_bytes / kPartOfL3);
  const int64_t leaping = has_short_vectors(target) ? 2 * target.l2_bytes : target.l2_bytes * 3 / 2;
  return windows_leap(b, a) ? std::min(leaping, sliding) : sliding;
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

// How many elements of the image steps over channels must be apart, not to be foreseen: more than all of a
// sum's would reach if they were dense, pages of their own where windows leave some out, or the first lines
// of a page where they come from memory.
int64_t told_apart(const BlockInfo& b, const Access& a, bool some_out, const Target& target) {
  constexpr int64_t kPartOfL3 = 4, kLines = 16;
  const int64_t bytes = bytes_of(a.buffer->type.dtype);
  int64_t reach = b.reduction_size();
  if (some_out) reach = std::min(reach, kPage / bytes - 1);
  if (!target.far_l3() && has_taps(b, a) && kPartOfL3 * a.elements * bytes > target.l3_bytes)
    reach = std::min(reach, kLines * kLine / bytes);
  return reach;
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

// Whether a plane of the image, from one step of `over` to the next, is one row of tiles.
bool is_one_row(const BlockInfo& now, const Access& a, const Iter& over, const Tile& t) {
  const std::vector<const Iter*> spatial = now.spatial();
  return std::none_of(spatial.begin(), spatial.end(), [&](const Iter* i) {
    return i->extent > 1 && i->var != t.row->var && a.uses(*i) &&
           std::abs(a.stride(*i).value_or(0)) < std::abs(a.stride(over).value_or(0));
  });
}

// Tiles of rows that read the same of the operand, one after the other.
int64_t passes_over(const BlockInfo& now, const Access& a, const Tile& t) {
  for (const Iter& i : now.iters)
    if (i.var == t.row->var && a.uses(i)) return 1;
  return ceil_div(t.row->extent, t.rows);
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
            fmt::format("; {} lines at once are more than the {} that can be in flight", lines, kUnderWay)};
  if (pages_of(a) > kPagesTranslated)
    return {" shares=" + steps,
            fmt::format("; it has {} pages, the TLB holds {}, and lines wait for page walks", pages_of(a),
                        kPagesTranslated)};
  return {};
}

}  // namespace

bool prefetch_windows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                      const std::string& row_tiles, const std::vector<std::string>& reduced,
                      const std::vector<std::string>& taps, const Target& target) {
  constexpr int64_t kLeastWork = 2, kLeastWorkOfRow = 20;  // FMAs for each line that is asked for,
  constexpr int64_t kLeastWorkSliding = 8;                 // in which most are of rows before it
  constexpr int64_t kPartOfL2 = 4;                         // that a row of windows takes at most
  constexpr int64_t kCyclesAhead = 150;                    // in which a line comes
  constexpr int64_t kFewPasses = 4;                        // of tiles of columns over the image
  constexpr int64_t kMostPasses = 8;                       // of tiles of rows: for most of them it is there
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
    if (size <= comes_in_time(now, a, beside_stream, target) || passes_over(now, a, t) > kMostPasses)
      continue;
    if (!over || !lies_apart(now, a, *over, told_apart(now, a, some_out, target))) continue;
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
      s.because(
          fmt::format("its {} KiB come from beyond L2, strided along {}, and are used by few tiles of "
                      "columns, each for {} cycles: prefetched {} ahead",
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
          products / lanes_of(now, target) >=
              (windows_leap(now, a) ? kLeastWorkOfRow : kLeastWorkSliding) * lines))) {
      s.because(
          fmt::format("its {} KiB come from beyond L2: the {} KiB of the next row of windows are prefetched "
                      "while this one is computed",
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
        fmt::format("its {} KiB come from beyond L2, strided along {}, a step of which takes {} cycles{}",
                    size / 1024, *loop, cycles, shares.why));
    asked |= s.try_step(fmt::format("prefetch {}.{} {} distance={}{}", block, *loop, a.buffer->name, distance,
                                    shares.option));
  }
  return asked;
}

}  // namespace nestor::library
