// A map that reads along one dimension and writes along another. Tiles of a cache line each way are turned in
// registers (the pass transpose_tiles): lanes along the one, unrolled rows along the other. The loops become
//
//   other loops | panels of lanes | row tiles | lane tiles | rows (unrolled) | lanes (vectorized)
//
//  - A line each way: every line that is read or written is used whole while it is in a register.
//  - Two lines of rows where the second-level cache holds what is written: pairs of lines are prefetched. One
//    where it comes from behind it (Zen 4: 1500 x 1300 2.1 to 1.75 ms, 700 x 3000 1.9 to 1.6), and where
//    stores to lines a multiple of 4 KB apart meet in few sets of the first-level cache.
//  - Lane tiles follow each other: each row of the output is written from left to right, so that few pages
//    are being written at any time, and a line that two tiles share is still in the cache.
//  - Where neither what is read nor what is written lies dense along the lanes, and what is written has a few
//    elements only that do, those are unrolled too, and the vectors of all are put together.
//  - Panels of 1024 lanes: what is read lies in as many pages, and all of them are read again for the next
//    row tile. Where row tiles are innermost, panels of as many rows, for what is written (Cascade Lake,
//    small pages: 2048 x 2048 5.6 to 4.7 ms, 1009 x 2003 3.6 to 3.1), or whose lines are more than the cache
//    holds (64 x 12544 0.87 to 0.79, 127 x 20000 6.1 to 3.8). Of short rows that lie dense, panels of 96 KB:
//    the next one is asked for in shares (12544 x 64 0.60 to 0.52, x 96 1.4 to 0.9, 6400 x 127 1.3 to 0.8; of
//    20 columns 0.8 to 0.95).
//  - Strips of few row tiles, whose lines follow each other in what is read, where vectors are lines and the
//    last cache is near: lane tiles come around them, in panels of lanes as before. Where stores go past
//    the caches, 3, in panels of 512 lanes: memory takes lines that follow each other faster than a column of
//    them (Zen 5: 2048 x 2048 1.26 to 0.58 ms, 4096 x 4096 6.0 to 3.6; not where vectors pass in halves, Zen
//    4: 4096 x 4096 by 3 11.0 ms, by columns 6.4, 3008 x 1504 2.1 and 0.9). Else 4, where neither they nor
//    the lanes of a tile meet in few sets of the first level (1009 x 2003 0.20 to 0.17 ms, 1001 x 1003 0.095
//    to 0.076; 12544 x 64, where they do, 0.057 to 0.092).
//  - Of elements of a byte as many lanes as a line holds, where that is one register: four squares share it
//    (Cascade Lake, i8: 200 x 300 10 to 20 % less time, 3009 x 2003 30 %; of two bytes none, AVX2 loses).
//  - Stores past the caches are of whole lines: parts of them go to memory one by one (Cascade Lake, f16
//    2048 x 2048: by half lines 17.6 ms, by whole ones 3.4).
//
// Where the last cache is a mesh's (Granite Rapids) stores to lines that are there cost the most: with those
// of the tile after the next asked for, and row tiles innermost, so that the machine foresees the reads,
// 1009 x 2003 takes 1.00 ms instead of 1.59, 3000 x 3001 10 ms instead of 38. (Zen 5 gains nothing by it.)
// Where one side is short, tiles follow each other along the other one, whichever is read or written then
// (Cascade Lake, 12544 x 64 0.89 to 0.56 ms, 64 x 12544 0.80 to 0.45, [64,100,128] turned around 1.2 to
// 0.9); where both are, along what stands between them ([100,50,100] 1.4 to 0.9). Where rows begin at no
// lines, all tiles of one step between them come before the next step, so that each line is touched once:
// [50,200,101] 3.2 to 1.7, [127,127,127] 4.9 to 3.6. Where a tile's rows are all there are, and less than a
// line, each line is filled before the next tile of lanes, unless those of all lanes stay in the first level
// (Emerald Rapids, [4,128,256] turned around 0.113 to 0.028 ms, [4,64,64] 10.7 to 3.3 us, [4,1000,1000] 4.4
// to 1.7 ms; [4,200,100], whose lines stay, would take 15 % more). Near a third level so are those that go on
// along what stands between, where all rows' meet in few sets of the first level (Zen 5: [20,192,117] turned
// around 0.160 to 0.056 ms, [40,64,200] 0.21 to 0.056, [100,192,117] 0.59 to 0.32; [20,200,117], whose rows
// don't meet, 0.037 to 0.058).
//
// Where the third level is far, stores go past the caches from the size of the second one on (Emerald Rapids,
// 64 x 12544 0.41 to 0.17 ms, 800 x 800 of f64 0.52 to 0.28); elements of two bytes and less only where lines
// a multiple of 4 KB apart meet in few sets of it (f16 1504 x 1504 0.37 to 0.49). Near: 1024 x 192 0.15 to
// 0.035 ms by the caches, 2048 x 512 0.37 to 0.26, Zen 3. Past the caches row tiles are innermost as well
// (Zen 4: 2048 x 2048 2.7 to 1.7 ms, 3000 x 4000 9.9 to 8). By single lines, what is read is asked for where
// it comes from a mesh (Cascade Lake, f32: 6.0 to 4.4, 3008 x 1504 9.3 to 4.6); by pairs the machine foresees
// it (Emerald Rapids, 2048 x 2048 1.02, asked for 1.21).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "schedules/library/planner.h"
#include "schedules/library/tile.h"
#include "schedules/library/tile_results.h"
#include "schedules/library/turn_choice.h"
#include "schedules/library/turn_size.h"

namespace nestor::library {

namespace {

constexpr int64_t kLongWalk = 8, kTilesAhead = 2;  // tiles
constexpr int64_t kBeyondL2 = 8;     // second-level caches: as large as what passes a slow third level
constexpr int64_t kPanel = 1024;     // rows read in turn: well within the second level of address translation
constexpr int64_t kLeastPasses = 2;  // of row tiles over a panel: fewer find its lines in the first level
constexpr int64_t kTranslated = 1536;      // pages: all of that level
constexpr int64_t kDensePanel = 96 << 10;  // bytes: stays in the cache, with the next one

bool is_long(const BlockInfo& b, const Iter& i) {
  return i.extent >= kLongWalk * side_of(b);
}

bool takes_whole_lines(const BlockInfo& b) {
  return side_of(b) * bytes_of(b.output->type.dtype) >= kLine;
}

// Whether lines to be written are better asked for: where they come from a last cache that is far away. Tiles
// of parts of lines ask for a line several times, and gain later.
bool is_far(const BlockInfo& b, const Target& target) {
  const Access& out = *write_of(b);
  const int64_t near =
      takes_whole_lines(b) ? target.l2_bytes / 2 * std::max(1, target.cores) : target.l2_bytes;
  return target.far_l3() && out.elements * bytes_of(out.buffer->type.dtype) > near;
}

// Whether tiles follow each other along one side: a long one, where it takes whole lines of the other. Else
// both have to be long (Cascade Lake, u8 [8,296,167,4] turned around 0.33 ms, by one long side 1.1).
bool has_long_side(const BlockInfo& b, const Turn& t) {
  const bool lanes = is_long(b, *t.lanes), rows = is_long(b, *t.rows);
  return takes_whole_lines(b) ? lanes || rows : lanes && rows;
}

// Where both sides are short: an iterator that stands between them in what is read and in what is written.
// Tiles then follow each other along it. Null where there is none, or where tiles take parts of lines, of
// which the other parts come too late.
const Iter* between(const BlockInfo& b, const Turn& t) {
  const Iter* found = nullptr;
  if (!takes_whole_lines(b)) return found;
  for (const Iter* i : b.spatial()) {
    if (i == t.lanes || i == t.rows || i == t.written || i->loop.empty() || i->extent < kLongWalk) continue;
    bool inside = true;
    for (const Access& a : b.accesses) {
      const int64_t l = std::abs(a.stride(*t.lanes).value_or(0)), r = std::abs(a.stride(*t.rows).value_or(0));
      inside = inside && std::abs(a.stride(*i).value_or(a.elements)) < std::max(l, r);
    }
    if (inside) found = i;
  }
  return found;
}

// Whether all tiles of one of its iterations come before the next one: where parts of lines are read or
// written otherwise, of which the other parts come when the line has left the cache.
bool holds_slabs(const BlockInfo& b, const Turn& t, const Iter& between, const Target& target) {
  const int64_t bytes = bytes_of(b.output->type.dtype);
  const bool ragged = std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return a.stride(between).value_or(0) * bytes % kLine != 0;
  });
  return ragged && 2 * t.lanes->extent * t.rows->extent * bytes <= target.l2_bytes / 4;
}

// Which side that is: that of what is read, unless only the other one is long; that of lines put together.
bool follows_rows(const BlockInfo& b, const Turn& t) {
  return write_of(b)->stride(*t.lanes) == 1 ? is_long(b, *t.rows) : !t.written && !is_long(b, *t.lanes);
}

// Col2Im's sums read several places with gaps between: asking for all of it takes as long as the rest.
// (Cascade Lake, 8x8 taps on 126x126, strides of 2: 32 ms, without it 3.4; 3x3 on 64x64 0.13 and 0.09.)
void ask_ahead(Schedule& s, const BlockInfo& b, const Turn& t, const std::string& tiles, int64_t distance,
               bool reads, bool stores) {
  if (tiles.empty()) return;
  for (const Access& a : b.accesses) {
    const auto same = [&](const Access& o) { return o.write == a.write && o.buffer == a.buffer; };
    if (!a.uses(*t.lanes) || !a.uses(*t.rows) || !(a.write ? stores : reads)) continue;
    if (std::count_if(b.accesses.begin(), b.accesses.end(), same) > 1) continue;
    s.because(a.write ? "the latency of L3 is high: without a prefetch, stores wait for its lines one by one"
                      : "the latency of L3 is high");
    s.try_step(fmt::format("prefetch {}.{} {} distance={}", b.name, tiles, a.buffer->name, distance));
  }
}

// In which order tiles follow each other, and what is asked for.
struct Walk {
  bool interleaved = false;       // along the lanes an operand lies without gaps between the rows' elements
  bool streaming = false;         // stores go past the caches,
  bool left_to_right = false;     // and reads as the machine foresees them
  bool slabs = false;             // all tiles of one of `along`'s iterations before the next,
  const Iter* along = nullptr;    // or the next one's tile after each; null: tiles follow along a side
  const Iter* filling = nullptr;  // fills the lines of a tile of lanes before the next
  bool ahead = false;             // a long one, and ask for lines of later ones
  bool rows_innermost = false;    // of the loops over tiles,
  int64_t strip = 0;              // tiles of rows before the next tile of lanes; 0: all, or a panel
  int64_t panel = kPanel;         // of lanes; where `dense`, what is read of it lies side by side
  bool dense = false;
};

// Lanes whose rows lie side by side in all that is read, where tiles go along them.
int64_t dense_panel(const BlockInfo& b, const Turn& t, const Target& target) {
  int64_t row = 0;
  for (const Access& a : b.accesses)
    if (!a.write) {
      if (row || a.stride(*t.rows) != 1 || a.stride(*t.lanes) != t.rows->extent) return 0;
      row = t.rows->extent * bytes_of(a.buffer->type.dtype);
    }
  return row ? std::min(kDensePanel, target.l2_bytes / 8) / row : 0;
}

// Tiles of rows in a strip; 0 for none.
int64_t tiles_of_strip(const BlockInfo& b, const Turn& t, bool streaming, const Target& target) {
  const int64_t side = side_of(b), bytes = bytes_of(b.output->type.dtype), tiles = streaming ? 3 : 4;
  if (target.far_l3() || lanes_of(b, target) < side || !takes_whole_lines(b) ||
      t.rows->extent <= tiles * side || t.lanes->extent <= side)
    return 0;
  if (streaming) return vectors_are_lines(target) ? tiles : 0;
  if (2 * write_of(b)->elements * bytes <= target.l2_bytes) return 0;
  const auto meet = [&](const Access& a, const Iter& i, int64_t rows) {
    const int64_t pitch = std::abs(a.stride(i).value_or(0)) * bytes_of(a.buffer->type.dtype);
    return a.uses(i) && 2 * rows * std::gcd(pitch, kPage) > target.l1_ways * kPage;
  };
  return std::any_of(b.accesses.begin(), b.accesses.end(),
                     [&](const Access& a) {
                       return a.stride(*t.rows) == 1 ? meet(a, *t.lanes, side)
                                                     : meet(a, *t.rows, tiles * side);
                     })
             ? 0
             : tiles;
}

// Whether the lines written along the side that doesn't lie dense there, which what stands between goes on
// with, meet in so few sets of the first level that they have left it by then. Few whole lines as well: more
// of them are read and written without a break (Zen 5: [96,64,128] 16 % less time, [128,100,50] 45 more).
bool leave_too_early(const BlockInfo& b, const Turn& t, const Target& target) {
  constexpr int64_t kMost = 4096;  // lines: more than any first level holds
  constexpr int64_t kFewLines = 6;
  const Access& out = *write_of(b);
  const bool dense_lanes = out.stride(*t.lanes) == 1;
  const Iter &dense = dense_lanes ? *t.lanes : *t.rows, &apart = dense_lanes ? *t.rows : *t.lanes;
  const int64_t bytes = bytes_of(b.output->type.dtype), row = dense.extent * bytes;
  const int64_t pitch = std::abs(out.stride(apart).value_or(0)) * bytes;
  const int64_t sets = target.l1_ways > 0 ? l1_sets(target) : 0;
  return (row % kLine != 0 || row <= kFewLines * kLine) && sets > 0 &&
         lines_in_a_set(pitch, std::min(kMost, apart.extent), sets) > target.l1_ways;
}

Walk choose_walk(const BlockInfo& b, const Turn& t, const Target& target) {
  Walk w;
  w.interleaved = std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return a.uses(*t.lanes) && a.stride(*t.lanes) != 1 && leaves_no_gaps(a, *t.lanes, *t.rows);
  });
  const int64_t side = side_of(b), bytes = bytes_of(b.output->type.dtype), line = kLine / bytes;
  const bool clashes = std::abs(write_of(b)->stride(*t.rows).value_or(1)) * bytes % kPage == 0;
  const int64_t l2 = std::max<int64_t>(target.l2_bytes, 1);
  const bool early = clashes || (bytes >= 4 && !w.interleaved && !t.written);
  const int64_t least = !target.far_l3() ? moved_streaming_size(target) : early ? l2 : kBeyondL2 * l2;
  w.streaming = wants_streaming(b, *t.lanes, side < line ? line : std::min(lanes_of(b, target), side), least);
  w.left_to_right = w.streaming && !w.interleaved;
  w.filling = w.streaming || t.written ? nullptr : fills_lines(b, *t.lanes, *t.rows, target);
  const bool plain = !w.interleaved && !w.streaming && !w.filling, far = plain && is_far(b, target),
             meeting = plain && !t.written && !target.far_l3() && leave_too_early(b, t, target),
             has_long = has_long_side(b, t);
  const Iter* middle = far || meeting ? between(b, t) : nullptr;
  w.slabs = far && middle && holds_slabs(b, t, *middle, target);
  w.along = w.slabs || meeting || !has_long ? middle : nullptr;
  w.ahead = far && has_long && !w.along;
  if (w.left_to_right || (!w.interleaved && !t.written && !w.filling && !w.along && !w.ahead))
    w.strip = tiles_of_strip(b, t, w.streaming, target);
  if (w.strip && w.streaming) w.panel = kPanel / 2;
  w.rows_innermost = w.left_to_right || w.strip || (w.ahead && follows_rows(b, t));
  const int64_t panel = w.ahead && !w.rows_innermost ? dense_panel(b, t, target) / side * side : 0;
  w.dense = t.rows->extent > kLeastPasses * side && panel >= kLongWalk * side && t.lanes->extent >= 4 * panel;
  if (w.dense) w.panel = std::min(panel, kPanel);
  return w;
}

// The names of loops that a tile's are split into; empty where there is none.
struct Loops {
  std::string panels, row_panels, row_tiles, lane_tiles, rows, columns;
};

void split_lanes(Schedule& s, const BlockInfo& b, const Turn& t, const Walk& w, const Target& target,
                 Loops& loops) {
  const std::string& l = t.lanes->loop;
  loops.columns = l;
  const int64_t side = side_of(b), bytes = bytes_of(b.output->type.dtype);
  const int64_t lanes = std::min(lanes_of(b, target), side),
                widest = lanes_across(b, *t.lanes, w.streaming, target);
  const int64_t width = t.written ? lanes : w.interleaved ? 4 * lanes : widest;
  if (t.lanes->extent <= width) return;
  s.because(fmt::format("{} elements are {} bytes{}", widest, widest * bytes,
                        widest * bytes == kLine ? ", a cache line" : ""));
  const std::string size = sample_size(s, l + "_width", {side, 2 * side, 4 * side}, width, t.lanes->extent);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", l, b.name, size));
  loops.lane_tiles = l + "0";
  const int64_t tiles = ceil_div(t.lanes->extent, width), most = w.panel / width;
  if (!w.interleaved && (!w.rows_innermost || w.strip) && !w.slabs && tiles >= 2 * most) {
    s.because(w.dense ? "the input of a panel is contiguous, and stays in the cache"
                      : fmt::format("{} rows are in as many pages, which fit in the TLB", w.panel));
    s(fmt::format("{0}p {0}t = split {1}.{0}0 [_, {2}]", l, b.name, most));
    loops.panels = l + "p";
    loops.lane_tiles = l + "t";
  }
  loops.columns = l + "1";
}

void split_rows(Schedule& s, const BlockInfo& b, const Turn& t, const Walk& w, const Target& target,
                Loops& loops) {
  const std::string& r = t.rows->loop;
  loops.rows = r;
  const int64_t side = side_of(b), each = t.written ? t.written->extent : 1;  // rows of whole strides
  const int64_t height = t.written       ? std::min(kInterleaved / each * each, t.rows->extent)
                         : w.interleaved ? t.rows->extent
                         : w.ahead || w.along || w.rows_innermost ? side
                                                                  : rows_of(b, *t.rows, target);
  if (t.rows->extent <= height) return;
  if (!t.written)
    s.because(height > side ? "lines are fetched in pairs, and there are no set conflicts"
                            : "one line in each direction");
  const std::string size = sample_size(s, r + "_rows", {side, 2 * side}, height, t.rows->extent);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", r, b.name, size));
  loops.row_tiles = r + "0";
  loops.rows = r + "1";
  const int64_t tiles = ceil_div(t.rows->extent, height);
  const bool stay = t.rows->extent * kLine <= target.l2_bytes / 2;
  const int64_t pitch = std::abs(write_of(b)->stride(*t.rows).value_or(0)) * bytes_of(b.output->type.dtype),
                pages = t.rows->extent * std::min(pitch, kPage) / kPage;
  if (!w.rows_innermost || (!w.strip && stay && pages < kTranslated)) return;
  s.because(w.strip ? fmt::format("{} bytes of the input are contiguous, and few rows are written at a time",
                                  w.strip * kLine)
                    : fmt::format("{} rows' {} from one column of tiles to the next", kPanel,
                                  stay ? "pages stay in the TLB" : "lines stay in the cache"));
  s(fmt::format("{0}p {0}t = split {1}.{0}0 [_, {2}]", r, b.name,
                w.strip ? w.strip : ceil_div(tiles, ceil_div(tiles * height, kPanel))));
  loops.row_panels = r + "p";
  loops.row_tiles = r + "t";
}

void reorder(Schedule& s, const BlockInfo& b, const Turn& t, const Walk& w, const Loops& loops,
             const Target& target) {
  if (w.left_to_right)
    s.because("reads are in order, which the hardware prefetcher covers");
  else if (w.ahead)
    s.because("tiles follow each other along a long side, and prefetch the lines of later ones");
  else if (w.slabs)
    s.because("all of each line is read and written before the next one");
  else if (w.filling)
    s.because(
        fmt::format("lines are written in parts of {} elements: each is completed before the next tile's",
                    t.rows->extent));
  else if (w.along && !target.far_l3())
    s.because("the lines of all rows cause set conflicts: those of a tile are completed before the next");
  else if (w.along)
    s.because("both sides are short: tiles follow each other between them");
  std::vector<std::string> order;
  for (const Iter* i : b.spatial())
    if (i != t.lanes && i != t.rows && i != t.written && i != w.along && i != w.filling)
      order.push_back(i->loop);
  order.insert(order.end(), {loops.panels, loops.row_panels});
  if (w.slabs) order.push_back(w.along->loop);
  order.push_back(w.rows_innermost ? loops.lane_tiles : loops.row_tiles);
  order.push_back(w.rows_innermost ? loops.row_tiles : loops.lane_tiles);
  if (w.along && !w.slabs) order.push_back(w.along->loop);
  if (w.filling) order.push_back(w.filling->loop);
  if (t.written) order.push_back(t.written->loop);
  order.insert(order.end(), {loops.rows, loops.columns});
  std::erase(order, "");
  s(fmt::format("reorder {} ({})", b.name, fmt::join(order, " ")));
}

}  // namespace

bool turn_map(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const Turn t = choose_turn(b, target);
  if (!t.rows) return false;
  const Walk w = choose_walk(b, t, target);
  if (t.written) {
    s.because(fmt::format("the output is composed of {0} vectors along {1}, {0} contiguous elements each",
                          t.written->extent, t.written->loop));
    s(fmt::format("unroll {}.{}", block, t.written->loop));
  }
  Loops loops;
  split_lanes(s, b, t, w, target, loops);
  split_rows(s, b, t, w, target, loops);
  reorder(s, b, t, w, loops, target);
  s(fmt::format("unroll {}.{}", block, loops.rows));
  s(fmt::format("vectorize {}.{}", block, loops.columns));
  if (w.streaming) s(fmt::format("annotate {} streaming=1", block));
  const std::string &first = w.rows_innermost ? loops.lane_tiles : loops.row_tiles,
                    &last = w.rows_innermost ? loops.row_tiles : loops.lane_tiles;
  if (w.ahead) ask_ahead(s, b, t, last, kTilesAhead, !w.dense, true);
  if (w.along && target.far_l3()) ask_ahead(s, b, t, w.along->loop, w.slabs ? 1 : kTilesAhead, true, true);
  if (w.left_to_right && target.far_l3() && !stores_pairs(b, *t.lanes, target))
    ask_ahead(s, b, t, last.empty() || !is_long(b, *t.rows) ? first : last, kTilesAhead, true, false);

  std::vector<std::string> outside;
  for (const LoopInfo& loop : loops_of(s.func(), block))
    if (loop.name != loops.rows && loop.name != loops.columns && (!t.written || loop.name != t.written->loop))
      outside.push_back(loop.name);
  share_loops(s, block, outside, work_of(b, target), target);
  if (!w.dense) return true;
  std::string panels;  // by now perhaps fused with other loops, if not with what is inside
  for (const LoopInfo& loop : loops_of(s.func(), block)) {
    if (loop.name == first) break;
    panels = loop.name == last ? "" : loop.name;
  }
  const Buffer& read = b.accesses[b.accesses[0].write].buffer;
  s.because("the input of the next panel is fetched while this one is transposed");
  if (panels.empty() ||
      !s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", block, panels, read->name, last)))
    ask_ahead(s, b, t, last, kTilesAhead, true, false);
  return true;
}

}  // namespace nestor::library
