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
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kRows = 8;
constexpr double kFold = 2;  // of one vector of partial sums beside others, where a step of one takes 0.5
constexpr double kTurnedElement = 0.2;  // cycles, of an operand that is copied so that it lies dense
constexpr double kCertain = 0.7;        // of the other way's time, to be worth it

struct Dots {
  const Iter *row = nullptr, *column = nullptr, *k = nullptr;
};

bool plain(const Access& a) {
  return std::all_of(a.indices.begin(), a.indices.end(),
                     [](const Expr& e) { return e.as<VarRef>() != nullptr; });
}

// The iterators, if the block is of this form; row is null where it isn't.
Dots find(const BlockInfo& b, int64_t lanes) {
  if (!is_float(b.output->type.dtype) || !b.reduction || b.reduced().size() != 1 || !b.affine_loops)
    return {};
  Dots d;
  d.k = b.reduced().front();
  for (const Iter* i : b.spatial()) {
    if (i->extent == 1) continue;
    if (d.row && d.column) return {};
    (d.row ? d.column : d.row) = i;
  }
  if (!d.column) return {};
  if (d.column->extent > d.row->extent) std::swap(d.row, d.column);
  if (d.column->extent > kMostDotColumns || d.k->extent < 2 * lanes) return {};
  bool by_row = false, by_column = false;  // an operand of its own each
  for (const Access& a : b.accesses) {
    if (a.buffer->type != b.output->type) return {};
    if (a.write) continue;
    const bool movable = plain(a) && a.uses(*d.k) && (a.constant || !a.uses(*d.row));
    if (a.stride(*d.k) != 1 && !movable) return {};
    if (a.uses(*d.row) == a.uses(*d.column)) return {};
    bool& own = a.uses(*d.row) ? by_row : by_column;
    if (std::exchange(own, true)) return {};
  }
  if (!by_row || !by_column) return {};
  return d;
}

// The operand in blocks of as many steps of k as there are lanes. Gives the copy's name, if it takes one.
std::string lay_along(Schedule& s, const std::string& block, const Access& a, const Iter& k, int64_t lanes) {
  std::string copy;
  Buffer buffer = a.buffer;
  if (!a.constant) {
    copy = buffer->name + "_packed";
    s.because("a copy pays, as all rows share it");
    s(fmt::format("{} = cache_read {} {} global", copy, block, buffer->name));
    buffer = analyze(s.func(), copy).output;
  }
  std::vector<std::string> names, order;
  std::string steps;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    names.push_back(fmt::format("d{}", d));
    (uses_var(a.indices[d], k.var) ? steps : order.emplace_back()) = names.back();
  }
  order.insert(order.begin(), fmt::format("{}/{}", steps, lanes));
  order.push_back(fmt::format("{}%{}", steps, lanes));
  s.because(fmt::format("{} steps of {} then lie next to each other, for one column after the other", lanes,
                        k.loop));
  s(fmt::format("transform_layout {} ({}) -> ({})", buffer->name, fmt::join(names, ", "),
                fmt::join(order, ", ")));
  return copy;
}

// Each block of the copy is made column by column.
void turn_by_blocks(Schedule& s, const std::string& copy, const std::string& k, const std::string& column,
                    int64_t lanes) {
  s(fmt::format("{0}p0 {0}p1 = split {1}.{0} [_, {2}] tail=peel", k, copy, lanes));
  s(fmt::format("reorder {0} ({1}p0 {2} {1}p1)", copy, k, column));
  s.because(fmt::format("{} steps are next to each other in the copy", lanes));
  s(fmt::format("vectorize {}.{}p1", copy, k));
}

// The partial sums of a tile fill whole vectors of results, where they can: as many are folded together.
int64_t rows_of(const Dots& d, int64_t lanes, const Target& target) {
  const int64_t columns = d.column->extent;
  const int64_t fit = (target.vector_registers - 1 - columns) / columns;
  const int64_t most = std::clamp<int64_t>(std::min(fit, std::max(kRows, lanes / columns)), 1, d.row->extent);
  for (int64_t rows = most; rows > most / 2; --rows)
    if (rows * columns % lanes == 0) return rows;
  return ceil_div(d.row->extent, ceil_div(d.row->extent, most));
}

// The partial sums of a tile's results, whose rows are `row`, are folded together as far as the results lie
// next to each other.
void fold_results(Schedule& s, const BlockInfo& b, const Dots& d, const std::string& row) {
  const std::string &block = b.name, &column = d.column->loop, lanes = d.k->loop + "1";
  const auto out =
      std::find_if(b.accesses.begin(), b.accesses.end(), [](const Access& a) { return a.write; });
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
  s.because("the lanes of as many results as a vector has are folded together");
  s(fmt::format("vectorize {}.{}", block, lanes));
  s(fmt::format("vectorize {}.{}", block, results));
  s(fmt::format("vectorize {}_init.{}", block, results));
  if (unrolled.empty()) return;
  s(fmt::format("unroll {}.{}", block, unrolled));
  s(fmt::format("unroll {}_init.{}", block, unrolled));
}

void make(Schedule& s, const BlockInfo& b, const Dots& d, const std::string& epilogue, const Target& target) {
  const std::string &block = b.name, &i = d.row->loop, &j = d.column->loop, &k = d.k->loop;
  const std::string sums = block + "_lanes";
  const int64_t lanes = lanes_of(b, target), rows = rows_of(d, lanes, target);
  std::vector<std::string> order, copies;
  for (const Access& a : b.accesses)
    if (!a.write && a.stride(*d.k) != 1) copies.push_back(lay_along(s, block, a, *d.k, lanes));
  for (const Iter* o : b.spatial())
    if (o != d.row && o != d.column) order.push_back(o->loop);
  order.insert(order.end(), {i, j, k});
  s(fmt::format("reorder {} ({})", block, schedules::join(order)));
  s.because(fmt::format("{} steps of {} are the lanes of a vector of partial sums", lanes, k));
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]", k, block, lanes));
  s(fmt::format("{} = rfactor {}.{}1", sums, block, k));
  order.pop_back();
  for (size_t n = order.size(); n-- > 0;) s(fmt::format("fission {}.{}", sums, order[n]));
  std::string tiles = i, inside = i;
  if (rows < d.row->extent) {
    s.because(fmt::format("{} x {} partial sums and {} vectors of a step fit {} registers", rows,
                          d.column->extent, d.column->extent + 1, target.vector_registers));
    const std::string size = sample_size(s, i + "_rows", {1, 2, 3, 4, 6, 8, 16}, rows, d.row->extent);
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", i, block, size));
    tiles = i + "0";
    inside = i + "1";
  } else {
    s(fmt::format("{0}0 = add_unit_loop {1}.{0}", i, block));
    tiles = i + "0";
  }
  if (!epilogue.empty()) s(fmt::format("reverse_compute_at {} {}.{}", epilogue, block, tiles));
  const BlockInfo partial = analyze(s.func(), sums);
  std::vector<std::string> names;
  for (const Iter* o : partial.spatial()) names.push_back("l" + o->loop);
  s(fmt::format("{} = compute_at {} {}.{}", schedules::join(names), sums, block, tiles));
  s(fmt::format("reorder {0} ({1}0 l{2} l{3} l{1}1)", sums, k, i, j));
  s(fmt::format("set_scope {} local", partial.output->name));
  s.because("each step's vectors lie dense in every operand");
  s(fmt::format("vectorize {}.l{}1", sums, k));
  if (d.k->extent % lanes) s(fmt::format("annotate {}.l{}1 whole=1", sums, k));
  s(fmt::format("unroll {} (l{} l{})", sums, i, j));
  if (d.k->extent % lanes > 1) {  // one lane alone would be no vector
    s.because(fmt::format("only the last of the blocks of {} steps is not full", lanes));
    s(fmt::format("annotate {}.{}0 peel=1", sums, k));
  }
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}0", sums, k));
  fold_results(s, b, d, inside);
  share_loops(s, block, {tiles}, work_of(b, target), target);
  for (const std::string& copy : copies)
    if (!copy.empty()) turn_by_blocks(s, copy, k, j, lanes);
}

}  // namespace

bool tile_dots(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const int64_t lanes = lanes_of(b, target);
  const Dots d = lanes > 1 ? find(b, lanes) : Dots{};
  if (!d.row) return false;
  const double whole_steps = static_cast<double>(ceil_div(d.k->extent, lanes) * lanes);
  double dots = 0.5 * whole_steps + beside_fma(target) * kFold * static_cast<double>(lanes);
  for (const Access& a : b.accesses)
    if (!a.write && !a.constant && a.stride(*d.k) != 1)
      dots += kTurnedElement * static_cast<double>(d.k->extent * lanes) / static_cast<double>(d.row->extent);
  if (dots > kCertain * std::min(cost_of_lanes(b, *d.row, target), cost_of_lanes(b, *d.column, target)))
    return false;
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
