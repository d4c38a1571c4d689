// The pieces of which the analytic schedules are made. Each appends steps to a schedule.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "nestor/schedule.h"
#include "nestor/target.h"
#include "schedules/library/analysis.h"
#include "schedules/library/dot.h"
#include "schedules/library/tile.h"

namespace nestor::library {

// Elementwise producers move into their consumers where that costs no repeated work that matters.
void inline_producers(Schedule& s);
// A table of numbers that divisions of indices give, as of where a resized image's columns lie.
bool is_table(const PrimFunc& f, const BlockInfo& b);

// A register tile for the reduction `block` with what follows it elementwise (`epilogue`, may be empty)
// fused; of the instruction `dot`, if one is given.
void tile_reduction(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target,
                    const std::optional<Dot>& dot = {});
// The target as `b`, with what writes its results, is best computed for: with half of its vectors' width, or
// as it is; see half_vectors.cpp.
Target with_half_vectors(const PrimFunc& f, const BlockInfo& b, const std::string& epilogue,
                         const Target& target);

// A product whose rows are too long for a block of them to stay in the second-level cache, by parts of the
// reduction; see tile_parts.cpp. False where it isn't one. An epilogue is left as it is.
bool tile_parts(Schedule& s, const std::string& block, const Target& target);

// The same where few rows are multiplied by what isn't packed and comes from behind the second-level cache;
// see row_parts.cpp.
bool row_parts(Schedule& s, const std::string& block, const Target& target);

// A convolution whose weights for one tile of columns don't stay in the second-level cache, by parts of its
// channels; see panel_parts.cpp. False where it isn't one. An epilogue is left as it is.
bool panel_parts(Schedule& s, const std::string& block, const Target& target);

// The loops of a tile and the words for its sizes, numbers or decisions; a size is empty where the tile is
// the whole extent.
struct TileWords {
  std::string vector, row, column, width, rows, columns;
  std::vector<std::string> reduced;  // the reduction's loops in their order
  std::vector<std::string> outside;  // loops that stand around those over tiles
  // Loops of the reduction that are cut, since an operand has what they walk in blocks of so many: channels
  // that don't fill whole blocks, with loops l0 and l1.
  std::map<std::string, int64_t> blocks;
  std::string cut;  // the loop of the reduction that goes in parts of so many, which stand outside columns
  int64_t part_of_cut = 0;
  std::string
      group;  // the loop in such a block of which an instruction takes all steps at once; may be empty
  std::vector<Buffer> by_lines;  // the tile's
  std::vector<Buffer> parted;    // lie in panels of `part` columns each, several to a tile
  std::string part;
};

// How wide and how high the tile is stands in the trace as a decision, so that a search can try its
// neighbours.
TileWords sample_tile(Schedule& s, const Tile& t, int64_t lanes);

// The order in which the tile reads an operand: (o, c) -> (o/width, c, o%width). What loops outside walk,
// tiles of columns or of the vector outermost, then the dimensions that other loops walk, the reduction's in
// their order, then what one step reads: columns, lanes.
void pack(Schedule& s, const std::string& block, const Buffer& buffer, const TileWords& w);

// A block OPERAND_packed copies one that the tile copies, as a whole or by panels, into the order in which it
// is read. Its loops are left as they are.
void copy_operand(Schedule& s, const std::string& block, const Buffer& operand, const Tile& t,
                  const TileWords& w);

// The copy of an operand is made under `loop` of the tile's block, one panel at a time, or a run of panels of
// `width` columns each (a number, or a decision's name; empty: one panel).
void copy_panel(Schedule& s, const BlockInfo& b, const Tile& t, const Buffer& operand,
                const std::string& loop, const std::string& width, const Target& target);

// Products of transformed data, Winograd's convolutions. False where the function isn't that.
bool transformed_products(Schedule& s, const Target& target);

// A reduction that reads each element once, with its `epilogue` (may be empty). False where it isn't one, or
// where a register tile does as well.
bool fold_once(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target);

// A product with few columns along whose reduction all operands lie dense, or few filters over an image in
// blocks of channels, with its `epilogue` (may be empty): dot products by partial sums. False where it isn't
// that, or where a register tile does as well.
bool tile_dots(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target);

// A product whose columns are a few more than whole vectors, with its `epilogue` (may be empty): those few
// are dot products, see rest_of_columns.cpp. False where it isn't one, or where that doesn't pay.
bool rest_of_columns(Schedule& s, const std::string& block, const std::string& epilogue,
                     const Target& target);

// Whether the reduction is over rows so short that the lanes of several are folded together, but no shorter.
bool folds_rows_together(const BlockInfo& b, const Target& target);
// The parallel iterations that fold_once would make for such a reduction; nothing where it isn't one.
std::optional<int64_t> pieces_to_fold(const BlockInfo& b, const Target& target);

// A reduction with few results and much work for several cores is factored into one for each of a few parts,
// with blocks `block`_parts and `block`; else nothing happens.
void split_reduction(Schedule& s, const std::string& block, const Target& target);

// A reduction over windows of one input, pooling, with its `epilogue` (may be empty). False where it isn't
// one.
bool fold_windows(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target);

// A sum over windows of channels with a filter each, depthwise convolutions, in blocks of channels, with its
// `epilogue` (may be empty): tiles of windows that share what they read. False where it isn't one, or where
// its weights don't fit the registers.
bool tile_windows(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target);

// Lanes for a map inside some loops: its last loop, in tiles of a few vectors.
constexpr int64_t kVectorsAtOnce = 4;
void vectorize_inside(Schedule& s, const std::string& block, const Target& target,
                      int64_t vectors = kVectorsAtOnce);

// The option " at_lines=Y" for a split of the block's `loop` into tiles of so many lanes, or nothing; see
// at_lines.cpp.
std::string at_lines(const BlockInfo& b, const std::string& loop, int64_t width, const Target& target);
// The split `tiles` with that option, or, where it can't be, without; false where that isn't accepted either.
bool split_at_lines(Schedule& s, const std::string& tiles, const std::string& option);

// Whether the block's last loop is a sum's, of what lies dense along it.
bool sums_lanes(const Schedule& s, const std::string& block);

// Does without padded copies of what the tile of `block` reads. Gives the loops over taps that then know what
// of the tile they reach.
struct SkippedPadding {
  std::vector<std::string> unrolled;
  std::vector<std::string> first;  // of these, those that go around the loops over channels
};
SkippedPadding skip_padding(Schedule& s, const std::string& block, const Tile& t, const Target& target);

// A padded copy of an operand that the second-level cache doesn't hold is made a panel at a time, under one
// of the loops `outer` around the tile of b.
void pad_panels(Schedule& s, const BlockInfo& b, const std::vector<std::string>& outer, const Target& target);

// A padded copy that goes by lines of an image and some channels of them at a time, under the loops of the
// reduction; see skip_padding.cpp.
struct PadLines {
  std::string padding;  // the block, empty: none
  std::string loop;     // of the reduction, over channels, to be cut by `channels`
  int64_t channels = 0;
  std::vector<std::string> reduced;  // the reduction's loops in their order, `loop` cut
  std::string why;
};
PadLines pad_by_lines(const PrimFunc& f, const BlockInfo& b, const Tile& t, const Target& target);

// The rows of the tile by blocks that stay in the second-level cache while all tiles of columns pass; see
// row_blocks.cpp. `between` are the loops that stand between those over columns and over rows.
struct RowBlocks {
  int64_t size = 0;  // iterations of `over` in a block, or tiles if it is the tile's row; 0: no blocks
  const Iter* over = nullptr;
  std::string why;
};
RowBlocks choose_row_blocks(const BlockInfo& b, const Tile& t, const std::vector<std::string>& between,
                            const Target& target);

// The spatial iterators, outermost first, for an output that is better written from front to back than by
// columns of tiles; see output_order.cpp. `written`: the block that writes the results, if it is another.
struct OutputOrder {
  std::vector<const Iter*> iters;  // empty: nothing speaks for it
  std::string why;
};
OutputOrder output_order(const BlockInfo& b, const Tile& t, const BlockInfo* written, const Target& target);

// The tiles of columns by runs, for rows far apart that the second-level cache doesn't hold; see
// column_runs.cpp.
struct ColumnRuns {
  int64_t size = 0;  // tiles of columns in a run, at most; 0: no runs
  Buffer copied;     // by panels, for each run
  std::string why;
};
ColumnRuns column_runs(const BlockInfo& b, const Tile& t, const Target& target);

// Asks for the next images while these are computed; see prefetch_images.cpp. True where it does.
bool prefetch_images(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                     const std::vector<std::string>& reduced, const std::vector<std::string>& taps,
                     const Target& target);

// Asks ahead for an input that the cache doesn't hold. `row_tiles` is the loop over tiles, empty if there is
// one; `reduced` are the loops of the reduction of `block`, `taps` those of them that are unrolled; `b` is
// the block as it was when t was chosen. Whether it does.
bool prefetch_windows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                      const std::string& row_tiles, const std::vector<std::string>& reduced,
                      const std::vector<std::string>& taps, const Target& target);

// The same for windows whose channels no loop outside of them walks, where the loops outside of the tile are
// as they will be. `row_tiles` is the loop over tiles along a row of windows.
void prefetch_next_windows(Schedule& s, const std::string& block, const Tile& t, const std::string& row_tiles,
                           const std::vector<std::string>& reduced, const std::vector<std::string>& taps,
                           const Target& target);

// Asks for translations of the pages that the next row of tiles reads, where those of an image don't stay;
// see prefetch_pages.cpp.
void prefetch_pages(Schedule& s, const std::string& block, const std::string& row_tiles,
                    const std::vector<std::string>& reduced, const Target& target);

// Asks for what later steps read of an image in planes, of which few filters take every few pixels; see
// prefetch_planes.cpp.
void prefetch_planes(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                     const Target& target);

// Asks for what later steps of a matrix product read of a wide operand, or later ones of the tiles of columns
// that the loop `panels` walks; see prefetch_steps.cpp.
void prefetch_steps(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                    const std::string& panels, const Target& target);

// How many tiles ahead of one that takes so many cycles its lines are asked for, near the third level: some
// 1500 cycles, but not so many tiles that all would come before the first is used.
int64_t tiles_ahead(int64_t cycles);

// Few taps along a line, innermost of the reduction's loops `reduced`, written out; see taps_at_once.cpp.
void taps_at_once(Schedule& s, const BlockInfo& b, const std::vector<std::string>& reduced, const Tile& t,
                  const Target& target);

// Several steps at a time of the innermost loop of a tile's reduction, where a step's own micro-operations
// count; see steps_at_once.cpp. After all else that cuts the loop or asks ahead in it.
void steps_at_once(Schedule& s, const std::string& block, const Tile& t, const std::string& loop,
                   const Target& target);
// The same for a tile of so many rows of whole vectors.
void steps_at_once(Schedule& s, const std::string& block, int64_t rows, int64_t vectors,
                   const std::string& loop, const Target& target);

// How `w` writes the reduction `b`, tile by tile of the loop `tiles`: past the caches or to lines that are
// asked for ahead; row: the iterator of w, null for none, that walks the rows of a tile; see
// stream_output.cpp and prefetch_output.cpp.
void send_output(Schedule& s, const BlockInfo& w, const Iter* row, const BlockInfo& b,
                 const std::string& tiles, const Target& target);

// Rows of operands that are asked for ahead while the tile runs along them; see prefetch_rows.cpp.
struct RowsAhead {
  std::string loop;                // of the reduction, empty: none; to be cut by `line`
  int64_t line = 0, distance = 0;  // elements in a line of the cache; lines ahead
  std::vector<Buffer> buffers;
  std::string why;
};
// `block`: so many rows stay in the cache while all tiles of columns pass; 0: all of them would have to.
RowsAhead rows_ahead(const BlockInfo& b, const Tile& t, const TileWords& words, int64_t block,
                     const Target& target);
// Asks for them, a tile ahead where `row_tiles` is a loop over tiles, else some lines.
void prefetch_rows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                   const RowsAhead& ahead, const std::string& row_tiles, const Target& target);

// Short rows a tile ahead, where the loops `outer` end with those over tiles of rows and of columns.
void prefetch_next_rows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                        const std::vector<std::string>& outer, const std::string& row_tiles,
                        const Target& target);

// Constant operands that pass in panels, one for each tile of columns, and don't stay in the cache; and their
// next panel asked for in shares, `panels` being the loop over tiles; see stream_panels.cpp.
std::vector<Buffer> streamed(const BlockInfo& b, const Tile& t, const Target& target);
void stream_panels(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                   const std::string& panels, const Target& target);
// Packed constants of which one tile has all rows, but few of them, where panels side by side serve it; those
// of a far third level alone, and their lines asked for a little ahead.
std::vector<Buffer> read_by_few(const BlockInfo& b, const Tile& t, const Target& target);
std::vector<Buffer> used_by_few(const BlockInfo& b, const Tile& t, const Target& target);
// Into how many panels side by side, each a stream of its own, the columns of a tile go where few rows read
// them from far away; else one.
int64_t streams_of_few(const BlockInfo& b, const Tile& t, const Target& target);
void stream_for_few(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                    const Target& target);

// Whether the lines that a map with these lanes writes are better asked for ahead; then the step that does
// so, where its loops are as they will be; see prefetch_map.cpp.
bool asks_for_output(const BlockInfo& b, const Iter& lanes, const Target& target);
void prefetch_map(Schedule& s, const BlockInfo& b, const std::string& lanes, const Target& target);
// Asks for the next of the rows that a map gathers.
void prefetch_gathered(Schedule& s, const BlockInfo& b, const Iter& lanes_iter, const std::string& lanes,
                       const Target& target);

// A map: its loops fused outside, vectorized inside.
void spread_map(Schedule& s, const std::string& block, const Target& target);

// Maps that write pieces of one output's rows, scheduled each by itself, go by one loop over the rows.
void merge_pieces(Schedule& s, const Target& target);
// Nests of reductions that write elements of one output between each other's, by the outer loops that they
// have alike.
void merge_nests(Schedule& s, const Target& target);

// A map that reads along one dimension and writes along another: tiles turned in registers. False where it
// isn't one.
bool turn_map(Schedule& s, const std::string& block, const Target& target);

// Stores of the map `root`, in vectors, go past the caches from `least` bytes on; whether they do. (Zen 4,
// LayerNorm of 1075 rows of 3840 2.8 to 2.3 ms, LogSoftmax of 5000 of 1024 5.1 to 3.9.)
bool stream_rows(Schedule& s, const BlockInfo& root, int64_t least, const Target& target);

// Whether the map `b` writes at least `least` bytes, whole vectors of `width` along `lanes` at multiples of
// their size: then its stores may bypass the caches.
bool wants_streaming(const BlockInfo& b, const Iter& lanes, int64_t width, int64_t least);
// From this size on an output doesn't stay in the caches anyway.
int64_t streaming_size(const Target& target);
// The same for what is written elsewhere than it was read: each line that is fetched only to be overwritten
// comes alone. (Zen 4, 0213 of 8x512x12x64, 12 MB, 2.2 to 0.9 ms; maps of 9 MB gain as much as what reads
// them next loses.) Threads share what memory takes, and a near last level not yet full brings them more
// (Zen 5, by two: the same 0.29 to 0.20 ms; by one thread 0.29, in the caches 0.39).
int64_t moved_streaming_size(const Target& target);

// The root's loops along which every reduction's result is one row's, outermost first.
std::vector<std::string> row_loops(const PrimFunc& f, const BlockInfo& root);

// The last block is the root, producers go to its rows, which lie beside each other: softmax over channels.
// False where they don't.
bool join_columns(Schedule& s, const Target& target);

// Two reductions over the same pieces of rows, one after the other for each piece: softmax of long rows.
// False where there aren't any.
bool join_pieces(Schedule& s, const Target& target);

// What is computed before the block `root`, row by row with it, and read where it writes the output, is kept
// there. False where nothing is.
bool keep_in_output(Schedule& s, const std::string& root);

// The reduction of a row, under the loop `rows` unless there is but one, becomes one loop with the map that
// makes its elements, where these don't stay in the first-level cache until they are summed up; see
// sum_as_made.cpp.
void sum_as_made(Schedule& s, const std::string& block, const std::string& rows, const Target& target);

// The last block is the root, producers go to its rows: softmax, norms.
void join_rows(Schedule& s, const Target& target);

// A sum of products of two operands, each of which is read for at least a few results along some S iterator.
bool is_product(const BlockInfo& b);

// Two products with rows between them that the first makes and the second uses up, attention: all of it by
// tiles of rows. False where the function isn't of that form.
bool join_products(Schedule& s, const Target& target);

// The innermost loop of a decomposed reduction as lanes that keep partial results, where its reads are next
// to each other; false where they aren't.
bool vectorize_reduction(Schedule& s, const std::string& block);

// A decision `name` about a tile's size: `size`, or another of `sizes` that is less than the extent.
std::string sample_size(Schedule& s, const std::string& name, std::vector<int64_t> sizes, int64_t size,
                        int64_t extent);

// The result of the reduction `b` in registers, from which its `epilogue` (may be empty) writes it out; gives
// the block that writes.
std::string accumulate_locally(Schedule& s, const BlockInfo& b, const std::string& epilogue);

// Lowering can keep what is `local` in registers: no index of it moves with a loop that stays a loop.
bool accumulators_fit(const PrimFunc& f);

// The least that work takes on one core of the target, whatever its schedule, in microseconds: with its
// operands in caches, and for moving them from and to memory (0 where they fit the caches).
struct Work {
  double compute = 0, memory = 0;
  double microseconds() const { return std::max(compute, memory); }
  Work operator+(const Work& o) const { return {compute + o.compute, memory + o.memory}; }
  Work operator/(double n) const { return {compute / n, memory / n}; }
};
Work work_of(const BlockInfo& b, const Target& target);

// What a parallel loop takes by the model at the head of threads.cpp; INT64_MAX iterations: no thread waits.
// They do as much as `whole` iterations, all of them where that isn't given.
double microseconds_on(const Work& work, int64_t threads, int64_t iterations, const Target& target,
                       std::optional<double> whole = {});

// The number of the target's cores, two at least, on which that is least.
struct Threads {
  int64_t count = 1;
  double microseconds = 0;
  bool memory_binds = false;
};
Threads threads_for(const Work& work, int64_t iterations, const Target& target,
                    std::optional<double> whole = {});

// Threads share lines of an image instead of channels, where they read a padded copy of it: cuts the loop
// over lines among `outer`, the loops around the tile of `b`, and gives the outermost of them, the new loop;
// empty where nothing is to be gained. See share_padding.cpp.
std::string share_lines(Schedule& s, const BlockInfo& b, std::vector<std::string>& outer,
                        const Target& target);
// What the block makes for one reader, a padded copy, becomes parallel as that is, each thread with the part
// that it reads. False where the reader's threads share something else.
bool share_with_reader(Schedule& s, const std::string& block, const Target& target);

// So many cores use all that the memory gives.
double cores_for_memory(const Target& target);

// Some of `loops`, spatial ones of the block that stand directly inside each other, become one parallel loop,
// where the work is worth it.
void share_loops(Schedule& s, const std::string& block, std::vector<std::string> loops, const Work& work,
                 const Target& target);

// The loop of `block` named so, or its extent -1.
int64_t extent_of(const Schedule& s, const std::string& block, const std::string& loop);

}  // namespace nestor::library
