// A product whose columns are a few more than whole vectors, 65 or 49 or 197: the vector of the rest is as
// dear as a full one, though most of its lanes are empty. Where the rows lie dense along the reduction, the
// few columns are dot products, whose lanes are steps of the reduction: both kinds of vectors are full then.
// So columns and what follows elementwise are cut in two, the sums as well, each part a product of its own:
//
//   whole vectors of columns by a register tile;  a copy of the rest's columns, dense;  the rest by dots
//
// (Zen 5: 37x129x65 13 % less time, 200x100x33 26 %, 512x128x50 19 %.) Rows are read once more for the dots:
// from a third-level cache that is near that still pays (1009x1009x129 8 % less time), from a far one, or
// from memory, it takes as long as the lanes that were empty.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kShortestSum = 16;  // steps: beside folding, a vector of fewer is little
constexpr double kFold = 1.5;         // cycles, of a result's partial sums beside others
constexpr double kCopied = 1.5;       // of an element of the copy
constexpr double kStart = 150;        // of two more nests
constexpr double kCertain = 0.85;     // of what the empty lanes take, to be worth it
// What a core reads in a cycle from a near third-level cache, and from behind or from a far one, in bytes.
constexpr double kNear = 16, kFar = 6;
constexpr double kGigahertz = 4, kPerThread = 0.3;  // as in threads.cpp

struct Rest {
  const Iter *row = nullptr, *column = nullptr, *k = nullptr;
  Buffer columns;     // the operand that moves with the lanes
  int64_t whole = 0;  // columns in whole vectors
  int64_t left() const { return column->extent - whole; }
};

// The iterators and the operands, if the block is of this form; row is null where it isn't.
Rest find(const BlockInfo& b, const Tile& t, int64_t lanes) {
  Rest r;
  if (!is_product(b) || !b.affine_loops || b.reduced().size() != 1 || b.reduced()[0]->loop.empty()) return {};
  if (!t.vector || !t.row || t.column || t.turned || t.taps) return {};
  for (const Iter* i : b.spatial())
    if (i != t.vector && i != t.row && i->extent > 1) return {};
  r.column = t.vector;
  r.k = b.reduced()[0];
  r.whole = t.vector->extent / lanes * lanes;
  if (r.whole == 0 || r.left() == 0 || r.left() > kMostDotColumns || r.k->extent < kShortestSum) return {};
  bool rows = false;
  for (const Access& a : b.accesses) {
    if (!is_float(a.buffer->type.dtype) || a.buffer->type != b.output->type) return {};
    if (a.write) continue;
    if (a.uses(*r.column) == a.uses(*t.row)) return {};
    if (a.uses(*t.row) && a.stride(*r.k) != 1) return {};
    if (a.uses(*t.row) ? std::exchange(rows, true) : r.columns != nullptr) return {};
    if (a.uses(*r.column)) r.columns = a.buffer;
  }
  if (rows && r.columns) r.row = t.row;
  return r;
}

// In cycles, on as many cores as the work is worth: what whole vectors of columns leave of the time of a tile
// with lanes along `vector`, and dot products in its stead.
bool dots_pay(const BlockInfo& b, const Rest& r, const Iter& vector, int64_t lanes, const Target& target) {
  const auto rows = static_cast<double>(r.row->extent), k = static_cast<double>(r.k->extent),
             left = static_cast<double>(r.left());
  const Work work = work_of(b, target);
  const bool shared = work.microseconds() >= target.parallel_us;
  const int64_t threads = shared ? threads_for(work, INT64_MAX, target).count : 1;
  const auto cores = static_cast<double>(std::clamp<int64_t>(target.cores, 1, threads));
  double row = left * (0.5 * static_cast<double>(ceil_div(r.k->extent, lanes)) + kFold);
  const double bytes = k * bytes_of(b.output->type.dtype);
  const bool near = !target.far_l3() && rows * bytes < static_cast<double>(target.l3_bytes) / 2;
  if (rows * bytes > static_cast<double>(target.l2_bytes) / 2)
    row = std::max(row, bytes / (near ? kNear : kFar));
  const bool dots_shared = cores > 1 && rows * row / kGigahertz * 1e-3 >= target.parallel_us;
  const double dots = rows * row / (dots_shared ? cores : 1) + k * left * kCopied + kStart +
                      (dots_shared ? kPerThread * 1e3 * kGigahertz * cores : 0);
  const double without = cost_of_lanes(b, vector, target) * static_cast<double>(r.column->extent) * rows,
               whole = (0.5 * k + 1) * static_cast<double>(r.whole) * rows;
  return dots < kCertain * (without - whole) / static_cast<double>(lanes) / cores;
}

// The loop outermost, so that its parts stand beside each other; gives the block of the second part.
std::string cut(Schedule& s, const std::string& block, const std::string& loop, int64_t at) {
  std::vector<std::string> order{loop};
  for (const LoopInfo& l : loops_of(s.func(), block))
    if (l.name != loop) order.push_back(l.name);
  if (order.size() > 1) s(fmt::format("reorder {} ({})", block, schedules::join(order)));
  s(fmt::format("{0}_rest = loop_partition {0}.{1} [{2}]", block, loop, at));
  return block + "_rest";
}

void make(Schedule& s, const BlockInfo& b, const Rest& r, std::string epilogue, const Target& target) {
  if (epilogue.empty()) {
    epilogue = b.name + "_out";
    s.because("each part writes its results from its own buffer");
    s(fmt::format("{} = cache_write {} global", epilogue, b.name));
  }
  const BlockInfo product = analyze(s.func(), b.name), writer = analyze(s.func(), epilogue);
  const Iter* written = iter_over(writer, product.output, dim_of(product, product.iter(r.column->loop)));
  if (!written) throw ScheduleError(b.name + "'s columns aren't an index of its result");
  s.because(
      fmt::format("{} of {} columns would fill only {} of {} lanes; as dot products they take {} of {} steps",
                  r.left(), r.column->extent, r.left(), lanes_of(b, target),
                  r.left() * ceil_div(r.k->extent, lanes_of(b, target)), r.k->extent));
  const std::string rest = cut(s, b.name, r.column->loop, r.whole);
  const std::string rest_out = cut(s, epilogue, written->loop, r.whole);
  s.because("the parts keep their sums in different registers");
  s(fmt::format("{0}_sums = split_buffer {0}", rest));
  tile_reduction(s, b.name, epilogue, target);
  const std::string columns = r.columns->name + "_rest";
  s.because("the columns are then contiguous along the reduction");
  s(fmt::format("{} = reindex {} {}", columns, rest, r.columns->name));
  if (!tile_dots(s, rest, rest_out, target)) tile_reduction(s, rest, rest_out, target);
}

}  // namespace

bool rest_of_columns(Schedule& s, const std::string& block, const std::string& epilogue,
                     const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const int64_t lanes = lanes_of(b, target);
  if (lanes < 2 || b.reduced().empty()) return false;
  const Tile other = choose_tile(b, target);
  Rest r;
  for (const Iter* i : b.spatial())
    if (!r.row && !i->loop.empty() && i->extent > lanes)
      r = find(b, i == other.vector ? other : choose_tile(b, target, i), lanes);
  if (!other.vector || !r.row || !dots_pay(b, r, *other.vector, lanes, target)) return false;
  Schedule tried = s;
  try {
    make(tried, b, r, epilogue, target);
  } catch (const ScheduleError&) {  // an epilogue of another form
    return false;
  }
  if (!accumulators_fit(tried.func())) return false;
  s = tried;
  return true;
}

}  // namespace nestor::library
