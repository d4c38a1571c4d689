// What moves with the rows of a tile passes once for every tile of columns. Where it doesn't stay in the
// second-level cache meanwhile, it comes from behind it each time: a 1x1 convolution over an image of some
// megabytes waits for memory more than it multiplies. So tiles of rows go by blocks that do stay, and all
// tiles of columns pass over a block before the next:
//
//   other S loops | blocks of row tiles | column or vector tiles | row tiles | ...
//
// Where other loops stand between those over columns and over rows, the lines of an image, a block is some
// iterations of the outermost of these of which any stay.
//
// The panel that moves with the columns comes again for every block, and it must be asked for ahead
// (stream_panels.cpp) or be foreseen. So rows that lie dense along the reduction, a matrix's, which the
// machine foresees as well, go by blocks only where the panels are asked for, and by blocks that leave most
// of the cache to what passes: its sets fill unevenly. (A far third level, 2 MB of the second: 1024^3
// 71 % of the peak, blocks of half the cache 68, none 65; 512^3 69 against 66. Zen 5: no gain.) On a core
// that takes up few micro-operations a cycle such blocks stand in for asking for rows ahead
// (prefetch_rows.cpp), wherever its third level is; behind a near one it's no matter if some of them don't
// stay. (Cascade Lake with vectors of 32 bytes, made for 512 KB of second-level cache: 1024^3 6 to 12 % less
// time, 2048^3 15.) So they do where vectors are shorter than a line: tiles are narrower, and rows pass for
// more of them. (Zen 3: 2048^3 5 % less time, 1777x128x1081 9, 3000x100x700 5, 1024x1024x256 2.)
//
// Rows of which no such block stays go by larger blocks where they lie in more pages than a core keeps
// translated, the rows of the result among them: else each tile of columns has all of them translated anew.
// (Cascade Lake, a virtual machine's: 2048^3 in 4 blocks 8 % less time, in 2 or 8 2 to 4; 1024^3 in 2 blocks
// 2 %.) Threads that share the columns have half of the passes each: with two of them 1009^3 and 1024^3 by
// such blocks took 6 to 20 % more.
//
// In return the operand that moves with the columns passes once for every block. With X and W bytes in all,
// n tiles of columns and m blocks, n X + W become X + m W, or X + W where W stays beside a block. Rows that
// not even a near third level holds are waited for, panels from there hide behind their uses. (Zen 4, beside
// others that use the third level, 3x3/2: 406-64@96 6 % less time, 256-256@100 9, 128-128@120 11.)
// (The loops around the macro-kernel in Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication, ACM TOMS 34(3), 2008; theirs keep a block of either operand in a level each.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kLeastTiles = 4;  // of rows in a block: a panel of columns is fetched again for each block
// Dense, that use a panel of 64 bytes a vector asked for ahead: from a far third level (2048^3 by 60 rows: no
// gain) and from a near one, which gives it faster.
constexpr int64_t kLeastRowsFar = 96, kLeastRowsNear = 64;
constexpr double kLeastSaved = 0.25;  // of what passes
// Of panels from a near third level, where rows come from behind that.
constexpr double kShownOfPanels = 0.25, kLeastSavedOfMemory = 0.12;
constexpr int64_t kPartOfL3 = 8;

bool dense_rows_by_blocks(const BlockInfo& b, const Tile& t, const Target& target) {
  return (target.far_l3() || target.is_narrow() || has_short_vectors(target)) &&
         !streamed(b, t, target).empty();
}

int64_t least_dense_rows(const Target& target) {
  return (target.far_l3() ? kLeastRowsFar : kLeastRowsNear) * target.vector_bits / 8 / kLine;
}

// What all reductions of some tiles read.
class Passing {
 public:
  Passing(const BlockInfo& b, const Tile& t) : b_(b), t_(t) {
    for (const Iter& i : b.iters)
      if (i.reduce) extents_[&i] = i.extent;
  }
  void reach(const Iter* i, int64_t extent) { extents_[i] = extent; }
  int64_t rows() const { return bytes(extents_, false); }
  int64_t columns() const {
    auto all = extents_;
    for (const Iter* i : {t_.vector, t_.column})
      if (i) all[i] = i->extent;
    return bytes(all, true);
  }

 private:
  int64_t bytes(const std::map<const Iter*, int64_t>& extents, bool with_columns) const {
    int64_t n = 0;
    for (const Access& a : b_.accesses)
      if (!a.write && moves_with_columns(a, t_) == with_columns) n += bytes_read(a, extents, b_);
    return n;
  }

  const BlockInfo& b_;
  const Tile& t_;
  std::map<const Iter*, int64_t> extents_;
};

// Whether one row's elements lie apart, by more than there are of them.
bool lie_apart(const BlockInfo& b, const Tile& t) {
  for (const Access& a : b.accesses)
    for (const Iter* r : b.reduced())
      if (!a.write && a.uses(*t.row) && a.uses(*r) && !moves_with_columns(a, t) &&
          std::abs(a.stride(*r).value_or(a.elements)) > b.reduction_size())
        return true;
  return false;
}

// That a tile of columns meets in each row: of the operand that moves with the rows, and of the result.
double pages_of_row(const BlockInfo& b, const Tile& t) {
  double pages = 0;
  for (const Access& a : b.accesses) {
    if (!a.uses(*t.row) || (moves_with_columns(a, t) && !a.write)) continue;
    const int64_t bytes = bytes_of(a.buffer->type.dtype),
                  pitch = std::abs(a.stride(*t.row).value_or(0)) * bytes;
    const int64_t part = bytes * (a.write ? t.width : b.reduction_size());
    pages += pitch < kPage ? static_cast<double>(pitch) / kPage : static_cast<double>(ceil_div(part, kPage));
  }
  return pages;
}

RowBlocks blocks_of_pages(const BlockInfo& b, const Tile& t, const Target& target) {
  const double all = pages_of_row(b, t) * static_cast<double>(t.row->extent);
  const auto blocks = static_cast<int64_t>(std::ceil(all / kPagesTranslated));
  const int64_t tiles = ceil_div(t.row->extent, t.rows), size = ceil_div(tiles, blocks);
  if (!target.is_narrow() || !target.far_l3() || target.cores > 1 || blocks < 2 ||
      size * t.rows < least_dense_rows(target))
    return {};
  return {size, t.row,
          fmt::format("{:.0f} pages of rows stay in the TLB for all tiles of {}; otherwise all {:.0f} would "
                      "need page walks each time",
                      all / static_cast<double>(blocks), t.vector->loop, all)};
}

// Of `most` tiles in blocks of `size`, or smaller ones that the cores share more evenly, no more than twice
// as many: each takes as many blocks as the others, or one more. (Two threads, 1024^3, 171 tiles in 10 blocks
// instead of 9 7.12 to 6.77 ms, 1009^3 6.87 to 6.25, 800x1000x512 2.72 to 2.46, Emerald Rapids.)
int64_t size_for_cores(int64_t size, int64_t most, int64_t least, int64_t cores) {
  const auto busiest = [&](int64_t n) { return ceil_div(ceil_div(most, n), cores) * n; };
  if (cores < 2 || ceil_div(most, size) < 2 * cores) return size;  // they share finer pieces
  int64_t best = size;
  for (int64_t blocks = ceil_div(most, size) + 1; blocks <= 2 * ceil_div(most, size); ++blocks) {
    const int64_t n = ceil_div(most, blocks);
    if (n >= least && busiest(n) < busiest(best)) best = n;
  }
  return best;
}

}  // namespace

RowBlocks choose_row_blocks(const BlockInfo& b, const Tile& t, const std::vector<std::string>& between,
                            const Target& target) {
  RowBlocks none;
  if (!t.vector || !t.row || t.turned || !t.copied.empty() || !t.panels.empty()) return none;
  const bool apart = lie_apart(b, t);
  std::vector<const Iter*> walked;  // from outside; the last one by tiles
  for (const std::string& l : between)
    if (const Iter* i = b.iter(l); i->extent > 1) walked.push_back(i);
  walked.push_back(t.row);
  const auto steps = [&](const Iter* i) { return i == t.row ? ceil_div(i->extent, t.rows) : i->extent; };
  Passing passing(b, t);
  int64_t in_all = 1;
  for (const Iter* i : walked) {
    passing.reach(i, i->extent);
    in_all *= steps(i);
  }
  const int64_t tiles = column_tiles(t);
  if (tiles < 2 || in_all < 2 * kLeastTiles) return none;
  if (!apart && (walked.size() > 1 || !dense_rows_by_blocks(b, t, target))) return none;
  const int64_t all = passing.rows(), columns = passing.columns(),
                fits = target.l2_bytes / (apart || !target.far_l3() ? 2 : 4);
  if (all <= (apart ? target.l2_bytes : fits * 3 / 2)) return none;

  int64_t around = 1;  // blocks, by loops that are outside as a whole
  for (const Iter* i : walked) {
    const auto reach = [&](int64_t n) {
      passing.reach(i, i == t.row ? std::min(n * t.rows, i->extent) : n);
      return passing.rows();
    };
    const int64_t most = steps(i), inside = in_all / around / most;
    int64_t size = most;
    if (apart)
      while (size > 1 && size * inside >= kLeastTiles && reach(size) > fits) size = ceil_div(size, 2);
    else
      size = std::max<int64_t>(1, fits * in_all / all);
    int64_t blocks = ceil_div(most, size);
    size = ceil_div(most, blocks);
    if (i == t.row && !apart && around == 1) {
      size = size_for_cores(size, most, ceil_div(least_dense_rows(target), t.rows), target.cores);
      blocks = ceil_div(most, size);
    }
    if (i != t.row)  // a block that is left over is code of its own
      for (int64_t n = size; n > size / 2; --n)
        if (most % n == 0) {
          size = n;
          blocks = most / n;
          break;
        }
    const int64_t block = reach(size);
    if (block > fits && i != t.row) {  // even one step's
      around *= most;
      reach(1);
      continue;
    }
    blocks *= around;
    if (blocks < 2 || size * inside < kLeastTiles || block > fits ||
        (!apart && size * t.rows < least_dense_rows(target)))
      break;
    const bool beside = columns + block <= target.l2_bytes * 3 / 4;
    const bool from_memory = !target.far_l3() && kPartOfL3 * all > target.l3_bytes;
    const double panels = beside ? 1 : (from_memory ? kShownOfPanels : 1) * static_cast<double>(blocks);
    const auto now = static_cast<double>(tiles * all + columns),
               then = static_cast<double>(from_memory ? all : blocks * block) +
                      panels * static_cast<double>(columns);
    if (then > (1 - (from_memory ? kLeastSavedOfMemory : kLeastSaved)) * now) return none;
    return {size, i,
            fmt::format("{:.0f} KiB that depend on {} stay in L2 for all {} tiles of {}; otherwise {:.0f} "
                        "KiB would come from beyond L2 each time",
                        static_cast<double>(block) / 1024, i->loop, tiles,
                        t.column ? t.column->loop : t.vector->loop, static_cast<double>(all) / 1024)};
  }
  return apart ? none : blocks_of_pages(b, t, target);  // none stays
}

}  // namespace nestor::library
