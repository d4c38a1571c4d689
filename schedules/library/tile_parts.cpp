// A product along whose reduction rows are so long that the second-level cache doesn't hold a block of them
// (row_blocks.cpp): 128 rows of 3072 are 1.5 MB, and each tile of columns would have them come again from
// behind the cache. So the reduction goes in parts, each over a block of rows that does stay while all tiles
// of columns pass, and a tile adds what a part gives to what the parts before gave:
//
//   blocks of row tiles | parts of the reduction | column tiles | row tiles | R loops of a part | tile
//
// The result is read and written once for each part, so it must be in the cache as well (2048^3 in 2 parts:
// 65 % of the peak, in one 68); a panel of weights is a part as long too, and the next one is asked for ahead
// (stream_panels.cpp). An epilogue comes after, by itself. (The loop over parts of k in Goto and van de
// Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008. 2 MB of second-level cache,
// 128x3072x768 in 3 parts beside the libraries: 66 % of the peak, in one 58.)
//
// Or the sum is so long that a panel of weights alone takes more than half of that cache, and rows push it
// out while they pass. There a result that doesn't stay costs less than the panel does, and a part's tile can
// be wide again; a part is as long as its panel takes a quarter of the cache, and rows go by no blocks. (1 MB
// of it, Cascade Lake: 1024x4096x1024 in 4 parts 150 to 110 ms, 1024x3072x1024 in 2 or 4 86 to 77; 2048^3 and
// 1024^3 are no faster.) Only on cores that have been seen to gain, those of few micro-operations a cycle,
// and with whole lines as vectors near the third level, where the widest panel takes one and a half of the
// second. (Zen 5, 1 MB of it: 1024x8192x1024 6 % less time, 128x8192x768 5, 256x10000x2000 9, 1024x12288x512
// 8; of 6144 to 7168 3 less to 1 more, of 4096 0 to 2 more, of 3000 4 to 7.)
//
// Where the third level is near it gives dense rows as fast as they are used, as long as it holds them, and
// vectors as long as a line use what they read twice as fast as it comes. So there parts go with short
// vectors, over rows that take a large part of that level. Blocks of 60 rows of a part take half of the
// second-level cache, and the results, which don't stay, are asked for a tile ahead where rows begin at
// lines. An operand of columns that isn't constant is copied as a whole before. (Zen 3, 512 KB and 32 MB:
// 2048^3 in 2 parts 5 % less time, copied 14, 2000x3000x1000 in 3 17, 1000x4096x1000 in 4 10; of rows of 6
// MB, 700x2100x700, 3 % more. While neighbours use the third level, of OpenBLAS's speed 2048^3 0.92 instead
// of 0.77, 2000x3000x1000 0.91 instead of 0.78; 1536^3 the same.)
//
// Rows so few that of a part all take a quarter of the second level need no blocks, if the results nearly
// stay beside them; threads take columns. (Zen 3, 128x3072x768 in 12 parts 3 % less time, 64x3072x768 in 6 2;
// while neighbours use the third level 20 and 10. Of 3072 columns, whose results don't stay, 6 % less and
// then 35 more; 700 and 641 no gain; copied columns 13 more.)
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/part_of_sum.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kRows = 128;      // of a block: each panel is asked for again for each block
constexpr int64_t kRowsNear = 60;   // which a near third level gives faster
constexpr int64_t kPartOfL3 = 4;    // that rows take at least where it is near
constexpr int64_t kLeastTiles = 4;  // of columns for each thread: a block of rows is fetched by each
// Where it is near, in all; threads take blocks of rows, unless they are few. (1000x2400 by 203 columns, 12
// tiles, 6 to 40 % more time than without parts.)
constexpr int64_t kLeastTilesNear = 16;
constexpr int64_t kSteps = 16;  // between lines asked for, and a line of a row
constexpr int64_t kStepsOnNarrow = 64;
constexpr int64_t kWidest = 4;  // vectors of a tile

// Whether one operand moves with the columns and is laid out as they read it, constant or copied.
bool has_panels(const BlockInfo& b, const Tile& t) {
  const auto is_panels = [&](const Access& a) {
    return !a.write &&
           (t.copies_whole(a.buffer) || std::count(t.packed.begin(), t.packed.end(), a.buffer) > 0);
  };
  return std::count_if(b.accesses.begin(), b.accesses.end(), is_panels) == 1;
}

// The rows' operand lies dense along the reduction, the columns' is constant and passes in panels, or is
// copied where the third level is near; the result stays in half the second-level cache unless `spills`; all
// is f32.
bool fits_form(const BlockInfo& b, const Tile& t, bool spills, const Target& target) {
  if (!b.affine_loops || b.reduced().size() != 1 || b.reduced()[0]->loop.empty()) return false;
  if (!t.vector || !t.row || t.column || t.turned || t.taps || !t.panels.empty()) return false;
  if (target.far_l3() && !t.copied.empty()) return false;
  for (const Iter* i : b.spatial())
    if (i != t.vector && i != t.row && i->extent > 1) return false;
  if (target.far_l3() ? t.vector->extent % t.width || streamed(b, t, target).size() != 1 : !has_panels(b, t))
    return false;
  bool rows = false;
  for (const Access& a : b.accesses) {
    if (a.buffer->type.dtype != DType::f32) return false;
    const bool stays = a.elements * bytes_of(DType::f32) <= target.l2_bytes / 2;
    if (a.write && (a.stride(*t.vector) != 1 || !(stays || spills))) return false;
    if (a.write || a.constant || t.copies_whole(a.buffer)) continue;
    if (a.uses(*t.vector) || a.stride(*b.reduced()[0]) != 1) return false;
    rows |= a.uses(*t.row);
  }
  return rows;
}

// So many equal parts, of whole lines where the third level is far, that `beside` rows or columns of a part
// fit into so many bytes; 1: no parts.
int64_t choose_parts(int64_t k, int64_t beside, int64_t bytes, const Target& target) {
  const int64_t least = ceil_div(beside * k * bytes_of(DType::f32), bytes);
  for (int64_t parts = std::max<int64_t>(2, least); least > 1 && parts <= 3 * least; ++parts)
    if (k % (parts * (target.far_l3() ? kSteps : 1)) == 0 && k / parts >= kLeastPart) return parts;
  return 1;
}

// What short vectors read from a third level that is near, which gives less than they use.
enum class Near { no, blocks, few_rows };

// What rows of a part take of the second-level cache, or its panel; of a far third level's, `no`, as well.
int64_t bytes_of_part(Near form, const Target& target) {
  return target.l2_bytes / (form == Near::blocks ? 2 : 4);
}

Near near_form(const BlockInfo& b, const Target& target) {
  if (target.far_l3() || !has_short_vectors(target)) return Near::no;
  int64_t rows = 0, results = 0;  // in bytes
  for (const Access& a : b.accesses) {
    const int64_t bytes = a.elements * bytes_of(a.buffer->type.dtype);
    if (a.write)
      results = std::max(results, bytes);
    else if (!a.constant && a.stride(*b.reduced()[0]) == 1)
      rows = std::max(rows, bytes);
  }
  const int64_t row = b.reduction_size() * bytes_of(DType::f32);
  // Blocks of whole rows would be small.
  const bool take_much =
      kPartOfL3 * rows >= target.l3_bytes && kRowsNear * row > bytes_of_part(Near::blocks, target) * 3 / 2;
  if (take_much) return Near::blocks;
  const bool few = rows > target.l2_bytes && rows <= kRows * row && results <= target.l2_bytes;
  return few ? Near::few_rows : Near::no;
}

// Of the widest tile, 5/8 of the cache: 2048 and 2500 steps are no faster in parts.
bool has_long_panel(const BlockInfo& b, const Tile& t, const Target& target) {
  if (!t.row || !t.vector) return false;
  const int64_t panel = b.reduction_size() * kWidest * lanes_of(b, target) * bytes_of(DType::f32);
  return target.far_l3() ? target.is_narrow() && panel > target.l2_bytes / 8 * 5
                         : vectors_are_lines(target) && panel > target.l2_bytes / 2 * 3;
}

struct Parts {
  Tile tile;
  int64_t count = 1, steps = 0;  // of one part
  int64_t row_tiles = 0;         // in a block of them; 0: there are no blocks
  bool shares_columns = false;   // among threads, instead of blocks of rows; results then stay
  std::string why;
};

// One part where parts would win nothing. `b` is then as it is within a part where a tile was chosen for
// that.
Parts parts_of(BlockInfo& b, const Target& target) {
  const bool near = !target.far_l3();
  if (b.reduced().size() != 1) return {};
  const Near form = near_form(b, target);
  if (near && form == Near::no && !vectors_are_lines(target)) return {};
  Parts p;
  p.shares_columns = form != Near::blocks;
  p.tile = choose_tile(b, target);
  Tile& t = p.tile;
  const int64_t k = b.reduction_size();
  if (form == Near::few_rows && (!t.vector || t.vector->extent % t.width || !t.copied.empty())) return {};
  const bool rows_in_parts = form != Near::no || !near;  // else panels
  const bool long_panel = !rows_in_parts || !fits_form(b, t, near, target);
  if (long_panel && (form != Near::no || !has_long_panel(b, t, target))) return {};
  const int64_t rows = std::min(form == Near::blocks ? kRowsNear : kRows, t.row->extent);
  p.count =
      choose_parts(k, long_panel ? kWidest * lanes_of(b, target) : rows, bytes_of_part(form, target), target);
  p.steps = k / p.count;
  if (long_panel) {
    for (Iter& i : b.iters)
      if (i.reduce) i.extent = p.steps;
    t = choose_tile(b, target);
    if (!fits_form(b, t, true, target)) return {};
  }
  const int64_t columns = t.vector->extent / t.width, row_tiles = ceil_div(t.row->extent, t.rows);
  const int64_t threads = std::max(1, target.cores);
  const int64_t shared = p.shares_columns ? kLeastTiles * threads : 0;
  if (row_tiles < 2 || columns < std::max(form != Near::no ? kLeastTilesNear : 0, shared)) return {};
  const auto kib = [](int64_t elements) {
    return static_cast<double>(elements * bytes_of(DType::f32)) / 1024;
  };
  if (long_panel) {
    p.why = fmt::format(
        "{:.0f} KiB that depend on {} take too much of L2; with {} blocks of {} each tile's stay there for "
        "all tiles of {}",
        kib(k * t.width), t.vector->loop, p.count, p.steps, t.row->loop);
    return p;
  }
  p.why =
      fmt::format("{:.0f} KiB of rows don't fit in L2; each of {} blocks of {} does, for all {} tiles of {}",
                  kib(rows * k), p.count, p.steps, columns, t.vector->loop);
  const int64_t fits =
      std::max<int64_t>(1, bytes_of_part(form, target) / (p.steps * bytes_of(DType::f32) * t.rows));
  int64_t blocks = ceil_div(row_tiles, fits);
  if (near) blocks = std::min(row_tiles, ceil_div(blocks, threads) * threads);  // as many for each thread
  if (form != Near::few_rows && row_tiles > fits * 3 / 2) p.row_tiles = ceil_div(row_tiles, blocks);
  return p;
}

// For the next panel of a copy, by the reduction that sums parts, and for the next tile's results.
void ask_ahead(Schedule& s, const BlockInfo& b, const Tile& t, const std::string& panels,
               const std::string& rows, bool shares_columns) {
  for (const Buffer& buffer : t.copied) {
    s.because("the copy went to memory: its part for the next panel is fetched while this one is used");
    s.try_step(fmt::format("prefetch {}_part.{} {}_packed distance=1 shares={}10", b.name, panels,
                           buffer->name, b.reduced()[0]->loop));
  }
  // Of rows that begin at no line the tile of columns before has just written the one that would be asked
  // for.
  if (!shares_columns && t.vector->extent * bytes_of(DType::f32) % kLine == 0) {
    s.because("results of earlier blocks come from beyond L2");
    s.try_step(fmt::format("prefetch {}.{} {} distance=1", b.name, rows, b.output->name));
  }
}

void schedule_parts(Schedule& s, const BlockInfo& b, const Parts& parts, const Work& work,
                    const Target& target) {
  const Tile& t = parts.tile;
  const std::string &block = b.name, &i = t.row->loop, &j = t.vector->loop, &k = b.reduced()[0]->loop;
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  words.reduced = {k};
  for (const Buffer& buffer : t.packed) pack(s, block, buffer, words);
  for (const Buffer& buffer : t.copied) copy_operand(s, block, buffer, t, words);
  std::vector<std::string> outside;
  for (const Iter* o : b.spatial())
    if (o != t.row && o != t.vector && !o->loop.empty()) outside.push_back(o->loop);
  s.because(parts.why);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [{2}, _]", k, block, parts.count));
  const BlockInfo p = factor_part(s, b, k, {k + "1"});
  const Tile of_part = tile_in(p, t);

  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]{3}", j, block, words.width,
                t.vector->extent % t.width ? " tail=peel" : ""));
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", i, block, words.rows));
  std::string panels = j + "0", rows = i + "0";
  if (target.cores > 1 && parts.shares_columns) {
    s.because("each thread keeps its columns for all blocks of k");
    s(fmt::format("{0}c {0}t = split {1}.{0}0 [{2}, _]", j, block, target.cores));
    outside.push_back(j + "c");
    panels = j + "t";
  }
  if (parts.row_tiles > 0) {
    s(fmt::format("{0}b {0}t = split {1}.{0}0 [_, {2}]{3}", i, block, parts.row_tiles,
                  parts.shares_columns ? "" : " tail=balanced"));
    outside.push_back(i + "b");
    rows = i + "t";
  }
  // Loops of one step are gone.
  std::erase_if(outside, [&](const std::string& l) { return extent_of(s, block, l) < 0; });
  std::vector<std::string> order = outside;
  for (const std::string& l : {k + "0", panels, rows, i + "1", j + "1"}) order.push_back(l);
  s(fmt::format("reorder {} ({})", block, schedules::join(order)));

  const AddingTile adding{block, rows, j + "1", {i + "1"}};
  compute_part(s, p, adding);
  const int64_t steps = target.is_narrow() && parts.steps % kStepsOnNarrow == 0 ? kStepsOnNarrow : kSteps;
  s(fmt::format("{0}10 {0}11 = split {1}.{0}1 [_, {2}]{3}", k, p.name, steps,
                parts.steps % steps ? " tail=peel" : ""));
  keep_part(s, p, of_part, adding, {k + "10", k + "11"});
  share_loops(s, block, outside, work, target);
  stream_panels(s, p.name, p, of_part, panels, target);
  ask_ahead(s, b, t, panels, rows, parts.shares_columns);
  steps_at_once(s, p.name, of_part, k + "11", target);
  for (const Buffer& buffer : t.copied) spread_map(s, buffer->name + "_packed", target);
}

}  // namespace

bool tile_parts(Schedule& s, const std::string& block, const Target& target) {
  BlockInfo b = analyze(s.func(), block);
  const Work work = work_of(b, target);
  const Parts parts = parts_of(b, target);
  if (parts.count < 2) return false;
  Schedule split = s;
  schedule_parts(split, b, parts, work, target);
  s = split;
  return true;
}

}  // namespace nestor::library
