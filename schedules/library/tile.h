// The analytic choice of a register tile: which iterator becomes vector lanes, which becomes rows, and how
// many of each.
#pragma once

#include <algorithm>

#include "nestor/target.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

struct Tile {
  const Iter* vector = nullptr;  // null: nothing can be vectorized
  const Iter* row = nullptr;     // null: one row
  const Iter* beside = nullptr;  // all its few iterations are rows of a tile, for each one of `row`
  const Iter* column = nullptr;  // of several vectors beside each other where `vector` is no longer than one
  int64_t width = 1;  // elements of the vector iterator in a tile: a multiple of the lanes, or its extent
  int64_t rows = 1, columns = 1;
  // Of the reduction, along which an operand lies dense that moves with the lanes from row to row: so many of
  // its steps are unrolled, and blocks of that operand turned in registers. Null: none.
  const Iter* turned = nullptr;
  // Of the reduction: a window's taps, walked row by row, since neighbouring rows share what is dear to load.
  const Iter* taps = nullptr;
  std::vector<Buffer> packed;    // constant parameters to lay out by (vector / width), or (column / columns)
  std::vector<Buffer> by_lines;  // of these, those that a tile takes whole, in rows of whole lines
  std::vector<Buffer> copied;    // activations to copy into such a layout first
  std::vector<Buffer> panels;    // likewise, what one tile of the vector iterator reads at a time
  std::string why_vector, why_size;  // in numbers

  bool copies_whole(const Buffer& b) const { return std::count(copied.begin(), copied.end(), b) > 0; }
  bool copies(const Buffer& b) const {
    return copies_whole(b) || std::count(panels.begin(), panels.end(), b) > 0;
  }
};

inline bool moves_with_columns(const Access& a, const Tile& t) {
  return a.uses(*t.vector) || (t.column && a.uses(*t.column));
}

// Iterations of a spatial iterator in a tile.
inline int64_t in_tile(const Tile& t, const Iter* i) {
  return i == t.vector   ? t.width
         : i == t.row    ? t.rows
         : i == t.column ? t.columns
         : i == t.beside ? i->extent
                         : 1;
}

// Rows of a tile, of both iterators.
inline int64_t rows_of(const Tile& t) {
  return t.rows * (t.beside ? t.beside->extent : 1);
}

// Tiles of columns, or of the vector: as often what moves with the rows is read.
inline int64_t column_tiles(const Tile& t) {
  return t.column ? ceil_div(t.column->extent, t.columns) : ceil_div(t.vector->extent, t.width);
}

constexpr int64_t kPage = 4096;             // bytes
constexpr int64_t kMostDotColumns = 8;      // of a product whose lanes are steps of the reduction
constexpr int64_t kPagesTranslated = 1536;  // that a core keeps at hand: Skylake's, fewer than any since
inline int64_t pages_of(const Access& a) {
  return a.elements * bytes_of(a.buffer->type.dtype) / kPage;
}
constexpr int64_t kInterleaved = 4;   // up to so many columns without gaps are told apart from whole vectors
constexpr int64_t kFmasPerCycle = 2;  // of vectors; where it is one, work only takes longer than foreseen
// Accumulators that hide an FMA's latency of 4 cycles.
constexpr int64_t kToHideLatency = 4 * kFmasPerCycle;
constexpr int64_t kRowsBesideTurned = 12;  // accumulators that fit beside the vectors of a turned block

// Each vector takes part of a line, and tiles as many vectors wide are narrower.
inline bool has_short_vectors(const Target& target) {
  return target.vector_bits / 8 < kLine;
}
// Each takes a whole line, in one pass.
inline bool vectors_are_lines(const Target& target) {
  return !has_short_vectors(target) && !target.double_pumped;
}

constexpr double kOfTheLoop = 3;  // micro-operations of a step that count, compare and jump

// Whether tiles of `width` columns of `extent`, or much of what they leave over, end in part of a vector
// beside whole ones.
inline bool ends_in_part(int64_t extent, int64_t width, int64_t lanes) {
  constexpr int64_t kMuch = 16;
  const int64_t rest = extent % width;
  const auto torn = [&](int64_t n) { return n > lanes && n % lanes != 0; };
  return torn(width) || (torn(rest) && kMuch * rest > extent);
}

constexpr int64_t kLeastPart = 128;  // steps of a part of a sum, beside which reading its result is little

// How many steps of a product are one body, whether those of a tile of so many vectors beside each other may
// be, and the registers that it leaves for that; see steps_at_once.cpp.
inline int64_t steps_of_body(const Target& target) {
  if (target.is_narrow()) return 2;
  return target.vector_registers <= 16 && target.has_fma() ? 4 : 1;
}
inline bool may_have_steps_at_once(int64_t vectors, const Target& target) {
  return steps_of_body(target) > 1 && (vectors > 1 || target.vector_registers > 16);
}
constexpr int64_t kFewSteps = 8;      // of a loop inside of others that is one body
constexpr int64_t kFewInWindows = 4;  // of one inside of windows' taps, which more would have spill
constexpr int64_t kMostWritten = 12;  // steps in one body, those around it that are written out counted
inline int64_t spare_for_steps(const Target& target) {
  return target.vector_registers > 16 ? 2 : 0;
}

inline int64_t l1_sets(const Target& target) {
  return target.l1_bytes / target.l1_ways / kLine;
}
// Of the first `lines` of rows `pitch` bytes apart, the most that fall into one of a cache's `sets`.
int64_t lines_in_a_set(int64_t pitch, int64_t rows, int64_t sets, int64_t lines = 1);
// Whether rows so far apart fill few sets of the first-level cache while others stay empty.
bool meet_in_l1(int64_t pitch, const Target& target);

// Whether a packed copy of an operand that is gathered along v pays: every element is used by many rows, over
// a long reduction, and all indices are plain iterators, so that the copy is as large as the operand.
bool copy_pays(const BlockInfo& b, const Access& a, const Iter& v);

// How the operand is copied before the tile t, of known size, reads it; see operand_copy.cpp.
enum class OperandCopy { none, whole, panels };
OperandCopy copy_of(const BlockInfo& b, const Access& a, const Tile& t, const Target& target);

// Whether an operand's next panel is asked for while the one before is used, and copied then.
bool asks_for_panels(const BlockInfo& b, const Access& a, const Tile& t, const Target& target);

// Gives t, whose iterators are chosen, rows, vectors beside each other (as `width` in lanes, or as columns)
// and the reason. `shares`: its rows share loads.
void size_tile(const BlockInfo& b, Tile& t, bool shares, const Target& target);

// Tiles of rows that are ragged can't be shared together with the loops around them. Where those alone don't
// keep the cores busy, a few rows less that divide the extent do more.
void even_rows(Tile& t, const BlockInfo& b, const Target& target);

// Whether some operand doesn't move with the tile's vectors (nor its columns): then it is read again for each
// of them.
bool shares_an_operand(const BlockInfo& b, const Tile& t);

// Lanes of the block's output type; 1 where the target has no vectors for it.
int64_t lanes_of(const BlockInfo& b, const Target& target);

// What shuffles and stores take beside a vector's FMA: half as much where that one passes in two halves, in
// twice the time.
inline double beside_fma(const Target& target) {
  return target.double_pumped ? 0.5 : 1;
}

// The time of as many results as there are lanes, along v, which `writer` writes, or b itself; a step of one
// vector takes 0.5.
double cost_of_lanes(const BlockInfo& b, const Iter& v, const Target& target,
                     const BlockInfo* writer = nullptr);

// b is a reduction. The reasoning is at the top of tile.cpp. `vector`, if given, is what becomes lanes;
// `writer` writes the result out, null: b does.
Tile choose_tile(const BlockInfo& b, const Target& target, const Iter* vector = nullptr,
                 const BlockInfo* writer = nullptr);

// ---- The loops around a tile

// By loop, the divisor of an index that is a quotient of a reduction's iterator.
std::map<std::string, int64_t> reduced_in_blocks(const BlockInfo& b);

// The reduction's loop over a window's channels, to be cut, where they are many and the taps are unrolled.
struct ChannelBlocks {
  std::string loop;  // empty: none
  int64_t size = 0;
  std::string why;
};
ChannelBlocks channels_by_blocks(const BlockInfo& b, const std::vector<std::string>& taps,
                                 const Target& target);

// As the block has them, but what is inside of blocks comes last, and unrolled taps are not innermost, on a
// narrow core but the longest of the other loops: the loop around the tile must stay a loop, since several
// steps of it in straight-line code don't fit the registers.
std::vector<std::string> reduction_order(const BlockInfo& b, const std::vector<std::string>& taps,
                                         const std::map<std::string, int64_t>& blocks, const Target& target);

// The S iterators outside the tile, in two parts: those outside its columns, and those between the columns
// and its rows. What a column shares among all rows is best read again while it is in the cache; the
// iterators that stand behind the columns in the block come inside them. A batch, which stands before, does
// so where weights pass from behind the second-level cache for each of its images, and a column's would stay
// in it. (Zen 5, of 30 works of random shapes from 2 % more time to 33 less, in the middle 4: 3x3/2, 82
// images 256-512@10x2 3.6 to 2.4 ms, 36 of 448-128@8x8 2.9 to 2.4, 5x5/2, 48 of 131-67@4x11 1.07 to 0.80; as
// AVX2, of 34 2 % more to 14 less.)
struct OuterLoops {
  std::vector<std::string> outside, between;
  std::string why_inside;  // a batch stands between; empty: none does
};

OuterLoops outer_loops(const BlockInfo& b, const Tile& t, const Target& target);

// Whether tiles of rows read again what moves with the vectors, or columns. Otherwise tiles that follow each
// other along the vector share lines, as windows along a row of an image do, and no others.
bool rows_share_vectors(const BlockInfo& b, const Tile& t);

// What stays in which cache.
std::string why_order(const BlockInfo& b, const Tile& t, const std::string& row_tiles,
                      const std::string& why_inside, const Target& target);

}  // namespace nestor::library
