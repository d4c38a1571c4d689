// A product with few columns, all of whose operands lie dense along the reduction or can be laid out so: the
// columns' operand in blocks of a vector's steps, so that all vectors of a step follow each other at whole
// lines; a constant one for good, another by a copy, which many rows share. Each result is a dot product, and
// the lanes are steps of the reduction. A tile of rows x columns of such partial sums stays in registers, so
// that each loaded vector is used several times; at the end each is folded to its number. The loops become
//
//   row tiles { blocks of the reduction | rows, columns (unrolled) | lanes ;  rows, columns: fold together }
//
// Lanes along the columns would be mostly empty, and lanes along the rows want each block of the operand
// turned in registers, which costs more than the folds, of which sixteen are made together:
// 512x512x2 1.5 times faster, 700x400x3 1.6 times, 1472x80x4 1.9 times, 150x60x2 twice.
//
// So are few filters over an image in blocks of as many channels as there are lanes: each is a dot product
// along them and the window's taps, and rows are those of a line of results,
//
//   other S loops, row tiles { R loops | rows, filters (unrolled) | lanes ;  filters, rows: fold together }
//
// where lanes along filters would be mostly empty, and lanes along a line gathered from blocks. (Zen 5,
// vectors of 16, beside those as the libraries were: 1x1/2 of 432 channels to 7 at 28x28 33 to 5 us, 3x3/2 of
// 430 to 5 at 20x20 51 to 21; by vectors of 8, 3x3/2 of 225 to 2 at 14x32 50 to 30.)
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/dot_tile.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kRows = 8;
constexpr double kFold = 2;  // of one vector of partial sums beside others, where a step of one takes 0.5
constexpr double kTurnedElement = 0.2;  // cycles, of an operand that is copied so that it lies dense
constexpr double kCertain = 0.7, kCertainOfWindows = 0.9;  // of the other way's time, to be worth it

// The operand in blocks of as many steps of k as there are lanes. Gives the copy's name, if it takes one.
std::string lay_along(Schedule& s, const std::string& block, const Access& a, const DotTile& d,
                      const std::vector<std::string>& steps, int64_t lanes) {
  std::string copy;
  Buffer buffer = a.buffer;
  if (!a.constant) {
    copy = buffer->name + "_packed";
    s.because("a copy pays, because all rows share it");
    s(fmt::format("{} = cache_read {} {} global", copy, block, buffer->name));
    buffer = analyze(s.func(), copy).output;
  }
  std::vector<std::string> names, order, others;
  std::map<std::string, std::string> dims;  // by loop
  std::string of_k;
  for (size_t i = 0; i < a.indices.size(); ++i) {
    names.push_back(fmt::format("d{}", i));
    const auto* v = a.indices[i].as<VarRef>();
    const auto step =
        std::find_if(d.steps.begin(), d.steps.end(), [&](const Iter* r) { return v && r->var == v->var; });
    if (v && v->var == d.k->var)
      of_k = names.back();
    else if (step != d.steps.end())
      dims[(*step)->loop] = names.back();
    else
      others.push_back(names.back());
  }
  if (d.cut) dims[d.k->loop + "0"] = fmt::format("{}/{}", of_k, lanes);
  for (const std::string& loop : steps)
    if (const auto it = dims.find(loop); it != dims.end()) order.push_back(it->second);
  order.insert(order.end(), others.begin(), others.end());
  order.push_back(d.cut ? fmt::format("{}%{}", of_k, lanes) : of_k);
  s.because(fmt::format("then {} steps of {} are contiguous, one column after the other", lanes, d.k->loop));
  s(fmt::format("transform_layout {} ({}) -> ({})", buffer->name, fmt::join(names, ", "),
                fmt::join(order, ", ")));
  return copy;
}

// Each block of the copy is made column by column.
void turn_by_blocks(Schedule& s, const std::string& copy, const std::string& k, const std::string& column,
                    int64_t lanes) {
  s(fmt::format("{0}p0 {0}p1 = split {1}.{0} [_, {2}] tail=peel", k, copy, lanes));
  s(fmt::format("reorder {0} ({1}p0 {2} {1}p1)", copy, k, column));
  s.because(fmt::format("{} steps are contiguous in the copy", lanes));
  s(fmt::format("vectorize {}.{}p1", copy, k));
}

// The partial sums of a tile fill whole vectors of results, where they can: as many are folded together.
// `shared`: taps that are written out share the vectors of rows, which then stay in registers.
int64_t rows_of(const DotTile& d, bool shared, int64_t lanes, const Target& target) {
  const int64_t columns = d.column->extent, for_row = columns + (shared ? 1 : 0);
  const int64_t fit = (target.vector_registers - 1 - columns) / for_row;
  const int64_t most = std::clamp<int64_t>(std::min(fit, std::max(kRows, lanes / columns)), 1, d.row->extent);
  for (int64_t rows = most; rows > most / 2; --rows)
    if (rows * columns % lanes == 0) return rows;
  return ceil_div(d.row->extent, ceil_div(d.row->extent, most));
}

// The partial sums of a tile's results, whose rows are `row`, are folded together as far as the results lie
// next to each other.
void fold_results(Schedule& s, const BlockInfo& b, const DotTile& d, const std::string& row) {
  const std::string &block = b.name, &column = d.column->loop, &lanes = d.lanes;
  const Access* out = write_of(b);
  std::string unrolled, results = d.row->loop + column;
  if (out->stride(*d.column) == 1 && out->stride(*d.row) == d.column->extent) {
    s(fmt::format("{} = fuse {} ({} {})", results, block, row, column));
  } else if (out->stride(*d.row) == 1) {
    unrolled = column;
    results = row;
    s(fmt::format("reorder {} ({} {})", block, column, row));
  } else {
    unrolled = row;
    results = column;
  }
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, unrolled.empty() ? results : unrolled));
  s.because("the lanes of as many results as a vector has are reduced together");
  s(fmt::format("vectorize {}.{}", block, lanes));
  s(fmt::format("vectorize {}.{}", block, results));
  s(fmt::format("vectorize {}_init.{}", block, results));
  if (unrolled.empty()) return;
  s(fmt::format("unroll {}.{}", block, unrolled));
  s(fmt::format("unroll {}_init.{}", block, unrolled));
}

// The loops over steps of a vector each, in their order. Taps that are written out are innermost where they
// share vectors of the rows, else first: several of them in one body would take more registers than there
// are.
std::vector<std::string> steps_in_order(const BlockInfo& b, const DotTile& d,
                                        const std::vector<std::string>& taps, bool shared) {
  std::vector<std::string> order;
  for (const Iter* r : b.reduced())
    if (r != d.k)
      order.push_back(r->loop);
    else if (d.cut)
      order.push_back(r->loop + "0");
  if (!shared)
    std::stable_partition(order.begin(), order.end(), [&](const std::string& l) {
      return std::find(taps.begin(), taps.end(), l) != taps.end();
    });
  return order;
}

struct RowLoops {
  std::string tiles, inside;
};

RowLoops cut_rows(Schedule& s, const BlockInfo& b, const DotTile& d, int64_t rows, bool shared,
                  const Target& target) {
  const std::string &block = b.name, &i = d.row->loop;
  if (rows >= d.row->extent) {
    s(fmt::format("{0}0 = add_unit_loop {1}.{0}", i, block));
    return {i + "0", i};
  }
  const int64_t columns = d.column->extent;
  s.because(fmt::format("{} x {} partial sums and {} vectors of a step fit in {} registers", rows, columns,
                        columns + (shared ? rows + 1 : 1), target.vector_registers));
  const std::string size = sample_size(s, i + "_rows", {1, 2, 3, 4, 6, 8, 16}, rows, d.row->extent);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", i, block, size));
  return {i + "0", i + "1"};
}

// The block `sums` makes a tile's partial sums, in registers.
void keep_sums(Schedule& s, const BlockInfo& b, const DotTile& d, const std::string& sums,
               const std::string& tiles, const std::vector<std::string>& steps,
               const std::vector<std::string>& taps, int64_t lanes) {
  const std::string &i = d.row->loop, &j = d.column->loop;
  const BlockInfo partial = analyze(s.func(), sums);
  std::vector<std::string> names, order = steps;
  for (const Iter* o : partial.spatial())  // a loop that runs once may be no iterator's any more
    names.push_back("l" + (o->loop.empty() ? o->var->name : o->loop));
  for (const std::string& l : {i, j, d.lanes}) order.push_back("l" + l);
  s(fmt::format("{} = compute_at {} {}.{}", schedules::join(names), sums, b.name, tiles));
  s(fmt::format("reorder {} ({})", sums, schedules::join(order)));
  s(fmt::format("set_scope {} local", partial.output->name));
  s.because("each step's vectors are contiguous in every operand");
  s(fmt::format("vectorize {}.l{}", sums, d.lanes));
  const int64_t rest = d.k->extent % lanes;
  if (rest > 0) s(fmt::format("annotate {}.l{} whole=1", sums, d.lanes));
  s(fmt::format("unroll {} (l{} l{})", sums, i, j));
  if (rest > 1) {  // one lane alone would be no vector
    s.because(fmt::format("only the last of the blocks of {} steps is partial", lanes));
    s(fmt::format("annotate {}.{}0 peel=1", sums, d.k->loop));
  }
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", sums, steps.front()));
  for (const std::string& l : taps) {
    s.because("for each kernel element it is known which rows of the tile it contributes to");
    s(fmt::format("unroll {}.{}", sums, l));
  }
}

// What follows elementwise comes with each tile; of windows with a line of results, whose lanes are its.
void write_results(Schedule& s, const BlockInfo& b, const DotTile& d, const std::string& epilogue,
                   const std::vector<std::string>& around, const std::string& tiles, const Target& target) {
  const bool by_lines = d.windows && !around.empty() && write_of(b)->stride(*d.row) == 1;
  s(fmt::format("reverse_compute_at {} {}.{}", epilogue, b.name, by_lines ? around.back() : tiles));
  if (by_lines) vectorize_inside(s, epilogue, target);
}

// Whether taps that are written out share the rows' vectors: for each an image is read again otherwise. More
// than a few columns leave few registers for that. (Zen 5, padded windows by strides of 1 to 3: of 2 to 4
// filters 0 to 43 % less time; of 5 and 7 over images of 9 MB and more 3 % more to 25 less, of 6 2 to 4 more;
// over smaller ones up to 40 more.)
bool taps_share(const BlockInfo& b, const DotTile& d, const SkippedPadding& taps, const Target& target) {
  constexpr int64_t kFew = 4, kLargeImage = 8;  // of the second level
  if (taps.unrolled.empty()) return false;
  return d.column->extent <= kFew || bytes_of_image(b) > kLargeImage * target.l2_bytes;
}

void make(Schedule& s, const BlockInfo& b, const DotTile& d, const std::string& epilogue,
          const Target& target) {
  const std::string &block = b.name, &k = d.k->loop, sums = block + "_lanes";
  Tile t;
  t.row = d.row;
  const SkippedPadding taps = d.windows ? skip_padding(s, block, t, target) : SkippedPadding{};
  const bool shared = taps_share(b, d, taps, target);
  const int64_t lanes = lanes_of(b, target), rows = rows_of(d, shared, lanes, target);
  const std::vector<std::string> steps = steps_in_order(b, d, taps.unrolled, shared);
  std::vector<std::string> order, around, copies;
  for (const Access& a : b.accesses)
    if (!a.write && (d.windows ? a.constant : a.stride(*d.k) != 1))
      copies.push_back(lay_along(s, block, a, d, steps, lanes));
  for (const Iter* o : d.outside) {
    order.push_back(o->loop);
    if (d.windows || o->extent > 1) around.push_back(o->loop);
  }
  for (const Iter* o : {d.row, d.column}) order.push_back(o->loop);
  const size_t results = order.size();
  for (const Iter* r : d.steps) order.push_back(r->loop);
  order.push_back(k);
  s(fmt::format("reorder {} ({})", block, schedules::join(order)));
  s.because(fmt::format("{} steps of {} are the lanes of a vector of partial sums", lanes, k));
  if (d.cut) s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]", k, block, lanes));
  s(fmt::format("{} = rfactor {}.{}", sums, block, d.lanes));
  for (size_t n = results; n-- > 0;) s(fmt::format("fission {}.{}", sums, order[n]));
  const auto [tiles, inside] = cut_rows(s, b, d, rows, shared, target);
  if (!epilogue.empty()) write_results(s, b, d, epilogue, around, tiles, target);
  keep_sums(s, b, d, sums, tiles, steps, taps.unrolled, lanes);
  if (d.windows) prefetch_blocks(s, analyze(s.func(), sums), d, steps, rows, target);
  fold_results(s, b, d, inside);
  around.push_back(tiles);
  share_loops(s, block, around, work_of(b, target), target);
  for (const std::string& copy : copies)
    if (!copy.empty()) turn_by_blocks(s, copy, k, d.column->loop, lanes);
}

}  // namespace

bool tile_dots(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const int64_t lanes = lanes_of(b, target);
  const DotTile d = lanes > 1 ? find_dot_tile(b, lanes) : DotTile{};
  if (!d.row) return false;
  double steps = static_cast<double>(ceil_div(d.k->extent, lanes) * lanes);
  for (const Iter* r : d.steps) steps *= static_cast<double>(r->extent);
  double dots = 0.5 * steps + beside_fma(target) * kFold * static_cast<double>(lanes);
  double others = std::numeric_limits<double>::max();
  for (const Iter* i : b.spatial())
    if (i->extent > 1) others = std::min(others, cost_of_lanes(b, *i, target));
  for (const Access& a : b.accesses)
    if (!d.windows && !a.write && !a.constant && a.stride(*d.k) != 1)
      dots += kTurnedElement * static_cast<double>(d.k->extent * lanes) / static_cast<double>(d.row->extent);
  if (dots > (d.windows ? kCertainOfWindows : kCertain) * others) return false;
  Schedule tried = s;
  try {
    make(tried, b, d, epilogue, target);
  } catch (const ScheduleError&) {  // loops that something else has touched before: the tile takes them as
                                    // they are
    return false;
  }
  s = tried;
  return true;
}

}  // namespace nestor::library
