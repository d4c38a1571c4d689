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
// 1024^3 are no faster.) Only on cores that have been seen to gain, those of few micro-operations a cycle.
//
// Only where the third level is far; a near one gives dense rows as fast as they are used.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kRows = 128;      // of a block: each panel is asked for again for each block
constexpr int64_t kLeastTiles = 4;  // of columns for each thread: a block of rows is fetched by each
constexpr int64_t kSteps = 16;      // between lines asked for, and a line of a row
constexpr int64_t kStepsOnNarrow = 64;
constexpr int64_t kWidest = 4;  // vectors of a tile

// The rows' operand lies dense along the reduction, the columns' is constant and passes in panels, the result
// stays in half the second-level cache unless `spills`; all is f32.
bool fits_form(const BlockInfo& b, const Tile& t, bool spills, const Target& target) {
  if (!b.affine_loops || b.reduced().size() != 1 || b.reduced()[0]->loop.empty()) return false;
  if (!t.vector || !t.row || t.column || t.turned || t.taps || !t.copied.empty() || !t.panels.empty())
    return false;
  for (const Iter* i : b.spatial())
    if (i != t.vector && i != t.row && i->extent > 1) return false;
  if (t.vector->extent % t.width || streamed(b, t, target).size() != 1) return false;
  bool rows = false;
  for (const Access& a : b.accesses) {
    if (a.buffer->type.dtype != DType::f32) return false;
    const bool stays = a.elements * bytes_of(DType::f32) <= target.l2_bytes / 2;
    if (a.write && (a.stride(*t.vector) != 1 || !(stays || spills))) return false;
    if (a.write || a.constant) continue;
    if (a.uses(*t.vector) || a.stride(*b.reduced()[0]) != 1) return false;
    rows |= a.uses(*t.row);
  }
  return rows;
}

// So many equal parts of whole lines that `beside` rows or columns of a part fit a quarter of the
// second-level cache; 1: no parts.
int64_t choose_parts(int64_t k, int64_t beside, const Target& target) {
  const int64_t bytes = beside * k * bytes_of(DType::f32), least = ceil_div(bytes, target.l2_bytes / 4);
  for (int64_t parts = std::max<int64_t>(2, least); least > 1 && parts <= 3 * least; ++parts)
    if (k % (parts * kSteps) == 0 && k / parts >= kLeastPart) return parts;
  return 1;
}

// Of the widest tile, 5/8 of the cache: 2048 and 2500 steps are no faster in parts.
bool has_long_panel(const BlockInfo& b, const Tile& t, const Target& target) {
  return target.is_narrow() && t.row && t.vector &&
         b.reduction_size() * kWidest * lanes_of(b, target) * bytes_of(DType::f32) > target.l2_bytes / 8 * 5;
}

}  // namespace

bool tile_parts(Schedule& s, const std::string& block, const Target& target) {
  if (!target.far_l3()) return false;
  BlockInfo b = analyze(s.func(), block);
  if (b.reduced().size() != 1) return false;
  Tile t = choose_tile(b, target);
  const Work work = work_of(b, target);
  const int64_t k_extent = b.reduction_size();
  const bool long_panel = !fits_form(b, t, false, target);
  if (long_panel && !has_long_panel(b, t, target)) return false;
  const int64_t beside = long_panel ? kWidest * lanes_of(b, target) : std::min(kRows, t.row->extent);
  const int64_t parts = choose_parts(k_extent, beside, target), part = k_extent / parts;
  if (long_panel) {
    for (Iter& i : b.iters)
      if (i.reduce) i.extent = part;
    t = choose_tile(b, target);
    if (!fits_form(b, t, true, target)) return false;
  }
  const int64_t columns = t.vector->extent / t.width, row_tiles = ceil_div(t.row->extent, t.rows);
  const int64_t threads = std::max(1, target.cores);
  if (parts < 2 || row_tiles < 2 || columns < kLeastTiles * threads) return false;

  Schedule split = s;
  const std::string &i = t.row->loop, &j = t.vector->loop, &k = b.reduced()[0]->loop;
  TileWords words = sample_tile(split, t, lanes_of(b, target));
  words.reduced = {k};
  for (const Buffer& buffer : t.packed) pack(split, block, buffer, words);
  std::vector<std::string> others, spatial;
  for (const Iter* o : b.spatial()) {
    spatial.push_back(o->loop);
    if (o != t.row && o != t.vector && !o->loop.empty()) others.push_back(o->loop);
  }
  split.because(
      long_panel
          ? fmt::format(
                "{:.0f} KiB that move with {} take too much of the second-level cache; of {} parts of {} "
                "each tile's stay in it while all tiles of {} pass",
                static_cast<double>(k_extent * t.width * 4) / 1024, j, parts, part, i)
          : fmt::format("{:.0f} KiB of rows wouldn't stay in the second-level cache; of {} parts of {} "
                        "each does, while all {} tiles of {} pass",
                        static_cast<double>(std::min(kRows, t.row->extent) * part * parts * 4) / 1024, parts,
                        part, columns, j));
  split(fmt::format("{0}0 {0}1 = split {1}.{0} [{2}, _]", k, block, parts));
  split(fmt::format("reorder {} ({}0 {} {}1)", block, k, schedules::join(spatial), k));
  const std::string sums = block + "_part";
  split(fmt::format("{} = rfactor {}.{}0 axis=0", sums, block, k));
  const BlockInfo p = analyze(split.func(), sums);

  split(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]", j, block, words.width));
  split(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", i, block, words.rows));
  std::vector<std::string> outside = others, order;
  std::string panels = j + "0", rows = i + "0";
  if (threads > 1) {
    split.because("each thread has its own columns through all parts");
    split(fmt::format("{0}c {0}t = split {1}.{0}0 [{2}, _]", j, block, threads));
    outside.push_back(j + "c");
    panels = j + "t";
  }
  const int64_t fits = std::max<int64_t>(1, target.l2_bytes / 4 / (part * bytes_of(DType::f32) * t.rows));
  if (!long_panel && row_tiles > fits * 3 / 2) {
    split(fmt::format("{0}b {0}t = split {1}.{0}0 [_, {2}]", i, block,
                      ceil_div(row_tiles, ceil_div(row_tiles, fits))));
    outside.push_back(i + "b");
    rows = i + "t";
  }
  // Loops of one step are gone.
  std::erase_if(outside, [&](const std::string& l) { return extent_of(split, block, l) < 0; });
  order = outside;
  for (const std::string& l : {k + "0", panels, rows, i + "1", j + "1"}) order.push_back(l);
  split(fmt::format("reorder {} ({})", block, schedules::join(order)));

  std::vector<std::string> names, units;
  for (const Iter* o : p.spatial()) {
    names.push_back("p" + (o->loop.empty() ? o->var->name : o->loop));
    if (o->loop != i && o->loop != j) units.push_back(names.back());
  }
  split.because("the sum of a part stays in registers");
  split(fmt::format("{} = compute_at {} {}.{}", schedules::join(names), sums, block, rows));
  const int64_t steps = target.is_narrow() && part % kStepsOnNarrow == 0 ? kStepsOnNarrow : kSteps;
  split(fmt::format("{0}10 {0}11 = split {1}.{0}1 [_, {2}]", k, sums, steps));
  split(fmt::format("reorder {} ({} {}10 {}11 p{} p{})", sums, schedules::join(units), k, k, i, j));
  split.because(t.why_vector);
  split(fmt::format("vectorize {}.p{}", sums, j));
  split(fmt::format("vectorize {}.{}1", block, j));
  split(fmt::format("unroll {}.p{}", sums, i));
  split(fmt::format("unroll {}.{}1", block, i));
  split(fmt::format("set_scope {} local", analyze(split.func(), sums).output->name));
  split(fmt::format("{0}_init = decompose_reduction {0}.{1}10", sums, k));
  share_loops(split, block, outside, work, target);
  Tile of_part = t;
  of_part.row = p.iter(i);
  of_part.vector = p.iter(j);
  stream_panels(split, sums, p, of_part, panels, target);
  two_steps(split, sums, of_part, k + "11", target);
  s = split;
  return true;
}

}  // namespace nestor::library
