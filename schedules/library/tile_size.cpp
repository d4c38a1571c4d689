// How many rows and vectors a register tile has, once it is known which iterators they are (tile.cpp): the
// most that fit the registers and leave little over, or fewer rows where the cache can't hold a line of each.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "schedules/library/planner.h"
#include "schedules/library/tile.h"

namespace nestor::library {

namespace {

constexpr int64_t kMostBeside = 8;  // vectors of a tile; more would be a loop

// Elements between rows of an operand; of a padded copy, in the image that is read in its place
// (skip_padding.cpp).
int64_t row_stride(const Access& a, const Iter& row) {
  Access image = a;
  for (size_t d = a.filled.size(); d-- > 1;)
    image.strides[d - 1] = image.strides[d] * (a.filled[d].hi - a.filled[d].lo + 1);
  return std::abs(image.stride(row).value_or(0));
}

// Each row of an operand that is broadcast has a line in the first-level cache, of which the reduction uses
// an element a step. Rows a multiple of 4 KB apart (1024 columns) are all in one set of 8 or 12 ways: more of
// them than ways push each other out at every step (1024^3, 14 rows in 8 ways: 72 % of the peak; 8 rows: 94;
// 3x3/2, 64 channels to 16 of 30 images of 4x4, which are the rows: 69 to 13 us).
int64_t rows_in_cache(const BlockInfo& b, const Tile& t, const Target& target) {
  int64_t rows = target.vector_registers;
  const int64_t sets = l1_sets(target);
  if (!t.row || !t.vector || sets < 1) return rows;
  for (const Access& a : b.accesses) {
    if (a.write || a.uses(*t.vector) || a.stride(*b.reduced().back()) != 1) continue;
    const int64_t pitch = row_stride(a, *t.row) * bytes_of(a.buffer->type.dtype);
    const int64_t beside = t.beside ? t.beside->extent : 1;
    while (rows > 1 && beside * lines_in_a_set(pitch, rows, sets) > target.l1_ways) --rows;
  }
  return rows;
}

// A tile with a short sum has hardly begun when the stores of the one before still leave the core: vectors
// that pass in two halves take two places of the queue each, of which both tiles' have to find one. (Zen 4,
// 64 places: sums of 4, 27 accumulators 25 us, 24 or fewer 21; of 8 27 39 us, 18 or fewer 35; of 16 the same
// to 9 % less; 1 channel to 40 of 2240, 3 taps, 9 x 3 82 us, 5 x 3 67.)
int64_t most_stored(const BlockInfo& b, const Target& target) {
  constexpr int64_t kShortSum = 16, kStored = 16;
  return target.double_pumped && b.reduction_size() <= kShortSum ? kStored : target.vector_registers;
}

// Elements of an operand that one set of columns meets: those of a batch, or group, if columns are its own.
int64_t of_its_columns(const BlockInfo& b, const Access& a, const Tile& t) {
  int64_t elements = a.elements;
  for (const Iter* i : b.spatial())
    if (i->extent > 1 && i != t.row && a.uses(*i) &&
        std::any_of(b.accesses.begin(), b.accesses.end(),
                    [&](const Access& c) { return !c.write && c.uses(*t.vector) && c.uses(*i); }))
      elements = std::max<int64_t>(1, elements / i->extent);
  return elements;
}

// Whether rows of an operand come from behind the second-level cache for each tile of columns.
bool rows_stream(const BlockInfo& b, const Tile& t, const Target& target) {
  for (const Access& a : b.accesses)
    if (!a.write && !a.constant && t.row && a.uses(*t.row) && !a.uses(*t.vector) &&
        a.stride(*b.reduced().back()) == 1 &&
        of_its_columns(b, a, t) * bytes_of(a.buffer->type.dtype) > target.l2_bytes / 2)
      return true;
  return false;
}

// The share of the time that is lost where rows stream, of a tile of so many vectors: the wider it is, the
// more rarely they pass; but what moves with the columns, and the next such panel, has to stay in the cache
// meanwhile, best in whole lines for each step. (Zen 5: 512^3 by 6 x 4 vectors 2 % less time than by 14 x 2,
// 1009^3 2 %; 128x3072x768 by 9 x 3 5 % less than by either.)
double lost_to_streams(const BlockInfo& b, int64_t vectors, const Target& target) {
  constexpr double kOfOneVector = 0.1, kOfAPanel = 0.05, kFits = 0.375, kOfTornLines = 0.02;
  const int64_t step = vectors * lanes_of(b, target) * bytes_of(b.output->type.dtype);
  const double panel = static_cast<double>(b.reduction_size() * step) / static_cast<double>(target.l2_bytes);
  return kOfOneVector / static_cast<double>(vectors) + kOfAPanel * std::clamp(panel - kFits, 0.0, 1.0) +
         (step % kLine == 0 ? 0 : kOfTornLines);
}

// The share of the time in which a narrow core waits for an image that comes from a far third level once for
// each tile of blocks of filters. Where windows share little, that is much of what it takes. (Cascade Lake,
// 3x3 of 256 to 64 channels at 89x49, stride 3, dilation 4, all of whose windows are apart: 6 x 4 vectors 15
// to 25 % less time than 9 x 2.)
double lost_to_passes(const BlockInfo& b, const Tile& t, int64_t vectors, const Target& target) {
  constexpr double kNotHidden = 0.25;
  if (!t.column || !target.is_narrow() || !target.far_l3()) return 0;
  double products = 1, bytes = 0;
  for (const Iter& i : b.iters) products *= static_cast<double>(i.extent);
  for (const Access& a : b.accesses) {
    int64_t read = 1;
    for (const Iter& i : b.iters) read *= a.uses(i) ? i.extent : 1;
    const int64_t size = std::min(read, a.elements) * bytes_of(a.buffer->type.dtype);
    for (const Iter* i : b.spatial())  // products of a batch, as Winograd's, which are made in the cache
      if (a.constant && i->extent > 1 && i != t.column && i != t.vector && a.uses(*i)) return 0;
    if (!a.write && !a.constant && !a.uses(*t.column) && size > target.l2_bytes / 2)
      bytes += static_cast<double>(size);
  }
  const double cycles = products / static_cast<double>(lanes_of(b, target)) / kFmasPerCycle;
  const auto passes = static_cast<double>(ceil_div(t.column->extent, vectors));
  return kNotHidden * passes * bytes / target.l3_bytes_per_cycle / cycles;
}

// A step's micro-operations, its loop's among them, and how many the core takes up while its FMAs execute.
struct Slots {
  double taken, there;
};

constexpr int kBesideAnother = 4;  // micro-operations a cycle of a wide core whose other thread takes half

Slots slots_of_step(double rows, double vectors, const Target& target, double of_the_loop = kOfTheLoop) {
  const double fmas = rows * vectors;
  return {fmas + rows + vectors + of_the_loop,
          (target.is_narrow() ? target.issue_width : kBesideAnother) * fmas / kFmasPerCycle};
}

// Whether tiles may have several steps in one body (steps_at_once.cpp): those of a product.
bool may_take_steps(const BlockInfo& b, const Tile& t) {
  return b.reduced().size() == 1 && !t.column && !t.turned && !t.taps;
}

// Whether a last vector is loaded under a mask that takes a register: where there are no registers for masks
// alone, and no narrower vector holds its elements; of what is packed it isn't. (Zen 3, 5x3 of 8 to 17
// channels at 16x24, 23 wide: 0.31 ms by 4 x 3 vectors, one accumulator in memory; 0.15 by 3. 873x17x23: 38 %
// less time.)
bool needs_mask(const BlockInfo& b, const Tile& t, int64_t width, const Target& target) {
  const int64_t rest = t.vector->extent % lanes_of(b, target);
  const auto is_loaded = [&](const Access& a) {
    return !a.write && !a.constant && a.uses(*t.vector) && (!t.row || !a.uses(*t.row));
  };
  return !t.column && width == t.vector->extent &&
         (b.reduced().size() > 1 || std::any_of(b.accesses.begin(), b.accesses.end(), is_loaded)) &&
         target.has_feature("avx") && !target.has_feature("avx512vl") &&
         !std::has_single_bit(static_cast<uint64_t>(rest)) && rest != 0;
}

// The share of the time that is lost where a narrow core has few slots left: it doesn't catch up after a
// stall. (4 a cycle, Cascade Lake: 64^3 by 14 x 2 vectors, 47 of 56 slots, 89 % of the peak; by 6 x 4, 37 of
// 48, 95.) So more vectors are beside each other, of which fewer rows use each: they mustn't come from behind
// the second-level cache. (3x3 convolution of 256 channels, 14 wide: 5 x 4 vectors 20 % more time than 14
// x 2.) Where rows come from there, each time that the columns of another tile meet them, half of the cache
// is best the columns'. (2048^3, a panel of 512 KiB by 6 x 4, of 384 by 8 x 3: 11 % less time.)
//
// Tiles that take several steps at once count the loop once for them; of them, one of more rows loads fewer
// vectors. (128x768x3072 by 8 x 3 vectors 7 % less time than by 9 x 3, which can't, 6 less than by 6 x 4;
// 197x384x1536 6 and 8, 128x768x768 6 and 4.) Those are fewer bytes where vectors are narrower. (32 bytes:
// 1024^3 and 2048^3 by 4 x 3 vectors 2 to 4 % less time than by 6 x 2.) A wide core whose other thread takes
// half is as narrow where rows come from behind the second-level cache and columns leave little over. (Zen 3,
// 4 x 3 instead of 6 x 2: 2048^3 6 % less time, 1024^3 2 to 4, 128x768x3072 2 to 7; 576x855x790 alike; of few
// columns up to half more.)
double lost_to_issue(const BlockInfo& b, double rows, double vectors, double columns, bool streams,
                     bool at_once, const Target& target) {
  constexpr double kMany = 96;  // vectors: of 3, 32 tiles
  constexpr double kFree = 0.7, kOfSlots = 0.6, kOfVectors = 3;
  const double few_rows = at_once ? 0.2 * target.vector_bits / 8 / kLine : 0.1;
  const double fits = streams ? 0.5 : 0.375;
  if (!target.is_narrow() && !(at_once && streams && columns >= kMany)) return 0;
  const double of_the_loop = kOfTheLoop / static_cast<double>(at_once ? steps_of_body(target) : 1);
  const Slots slots = slots_of_step(rows, vectors, target, of_the_loop);
  const double panel = static_cast<double>(b.reduction_size()) * vectors * target.vector_bits / 8 /
                       static_cast<double>(target.l2_bytes);
  return kOfSlots * std::max(0.0, slots.taken / slots.there - kFree) +
         (few_rows + kOfVectors * std::clamp(panel - fits, 0.0, 1.0)) / rows +
         (1 - std::min(1.0, rows * vectors / kToHideLatency));
}

// The share of the time that is lost where it is open how many rows there are: what tiles leave over runs in
// pieces of a few rows (open_parts.cpp), which wide tiles have enough accumulators for. Of the numbers of
// rows that hurt most.
double lost_to_rests(int64_t rows, int64_t vectors) {
  constexpr int64_t kFirst = 2, kLast = 12, kPiece = 4, kMostWritten = 6;
  const auto cycles = [&](int64_t n) {
    const int64_t fmas = n * vectors, loads = n + vectors;
    return static_cast<double>(std::max({fmas, loads, kToHideLatency})) / kFmasPerCycle;
  };
  const int64_t piece = rows > kMostWritten ? kPiece : rows;
  double share = 0;
  for (int64_t n = kFirst; n <= kLast; ++n) {
    const int64_t rest = n % rows, last = rest % piece;
    const double taken = static_cast<double>(n / rows) * cycles(rows) +
                         static_cast<double>(rest / piece) * cycles(piece) + (last ? cycles(last) : 0);
    share += static_cast<double>(n * vectors) / kFmasPerCycle / taken;
  }
  return 1 - share / (kLast - kFirst + 1);
}

double throughput_of(int64_t rows, int64_t vectors) {  // 2 loads, 2 FMAs a cycle
  return std::min(1.0, static_cast<double>(rows * vectors) / static_cast<double>(rows + vectors));
}

// Of a tile whose number of rows is open: the most, or just so many that they hide an FMA's latency.
int64_t rows_of_open(int64_t most, int64_t vectors) {
  const int64_t few = ceil_div(kToHideLatency, vectors);
  const auto quality = [&](int64_t rows) {
    return throughput_of(rows, vectors) - lost_to_rests(rows, vectors);
  };
  return few < most && quality(few) > quality(most) ? few : most;
}

// Where constants lie in panels already, a tile is of whole ones.
int64_t panel_of(const BlockInfo& b, const Tile& t, int64_t lanes) {
  int64_t panel = 1;
  for (const Access& a : b.accesses)
    if (a.constant && t.vector && !t.column) panel = std::max(panel, a.panel_along(*t.vector));
  return panel <= kMostBeside * lanes ? panel : 1;
}

}  // namespace

void size_tile(const BlockInfo& b, Tile& t, bool shares, const Target& target) {
  const int64_t lanes = lanes_of(b, target), registers = target.vector_registers;
  const int64_t row_extent = t.row ? t.row->extent : 1, in_cache = rows_in_cache(b, t, target);
  const int64_t beside = t.beside ? t.beside->extent : 1;
  const int64_t vectors_wanted = t.column ? t.column->extent : ceil_div(t.vector->extent, lanes);
  const bool streams = !t.column && !t.turned && !t.taps && rows_stream(b, t, target);
  const bool may_take = may_take_steps(b, t);
  const bool open = may_take && shares && t.row && t.row->open;
  const int64_t panel = panel_of(b, t, lanes);
  double quality = -std::numeric_limits<double>::infinity();
  bool crowded = false, stores_wait = false;
  for (const int64_t vectors : {1, 2, 3, 4, 5, 6, 8}) {
    if (vectors > vectors_wanted || ((t.turned || t.taps) && vectors > 1)) break;
    if (t.column && vectors > 4) break;  // more rows share more of a window
    const int64_t width = std::min(vectors * lanes, t.vector ? t.vector->extent : lanes);
    if (width % panel != 0 && width < t.vector->extent) continue;
    const bool at_once =
        may_take && may_have_steps_at_once(vectors, target) && !ends_in_part(t.vector->extent, width, lanes);
    int64_t fit = (registers - 1 - vectors - (at_once && vectors > 1 ? spare_for_steps(target) : 0) -
                   (needs_mask(b, t, width, target) ? 1 : 0)) /
                  (vectors * beside);
    if (fit == 0 && t.beside) continue;
    const int64_t fit_stores = std::max<int64_t>(1, most_stored(b, target) / (vectors * beside));
    if (t.turned) fit = std::min(kRowsBesideTurned, registers / 2);
    if (t.taps) fit = registers - 3 - t.taps->extent;  // beside a vector of a constant for each tap
    const bool too_many = shares && !t.turned && !t.taps && fit_stores < std::min(fit, row_extent);
    if (too_many) fit = fit_stores;
    const int64_t most =
        shares ? std::max<int64_t>(1, std::min(fit, in_cache)) : ceil_div(kToHideLatency, vectors * beside);
    const int64_t panels = ceil_div(row_extent, std::min(most, row_extent));
    const int64_t rows =
        open ? rows_of_open(std::min(most, row_extent), vectors) : ceil_div(row_extent, panels);
    const auto accumulators = static_cast<double>(rows * beside * vectors),
               loads = static_cast<double>(rows * beside + vectors);
    const double throughput = throughput_of(rows * beside, vectors);
    const double latency = std::min(1.0, accumulators / kToHideLatency);
    // Two columns are enough to use each broadcast twice; more columns stride over more cache lines at once,
    // which pays where rows are few. A column that is left over passes all rows once more, with few
    // accumulators.
    const double traffic =
        0.01 * std::abs(static_cast<double>(vectors) - 2) + (t.column ? 0 : 0.1 * loads / accumulators);
    const double left_over =
        0.16 * static_cast<double>(vectors_wanted % vectors) / static_cast<double>(vectors_wanted);
    const double lost =
        (streams ? lost_to_streams(b, vectors, target) : 0) + (open ? lost_to_rests(rows, vectors) : 0);
    // Where rows don't divide evenly, the last tile has fewer: what counts is how many they are on average.
    const auto slow = [&](int64_t wide) {
      const double average = static_cast<double>(row_extent * beside) / static_cast<double>(panels);
      return wide && shares ? lost_to_issue(b, average, static_cast<double>(wide),
                                            static_cast<double>(vectors_wanted), streams, at_once, target)
                            : 0;
    };
    const double rest = static_cast<double>(vectors_wanted % vectors) / static_cast<double>(vectors_wanted);
    const double issue = (1 - rest) * slow(vectors) + rest * slow(vectors_wanted % vectors);
    const double on_wide_core = throughput * latency - traffic - left_over - lost;
    const double slower = issue + lost_to_passes(b, t, vectors, target);
    if (on_wide_core > 0 && on_wide_core - slower > quality) {
      quality = on_wide_core - slower;
      t.rows = rows;
      (t.column ? t.columns : t.width) = vectors;
      crowded = most < fit && row_extent > most;
      stores_wait = too_many;
    }
  }
  const int64_t vectors = t.column ? t.columns : t.width, rows = rows_of(t);
  t.why_size = fmt::format(
      "{} x {} accumulators, {} vectors of a step and a broadcast need {} of {} registers; a step has {} "
      "loads for {} FMAs; {} in flight hide the latency of an FMA",
      rows, vectors, vectors, rows * vectors + vectors + 1, registers, rows + vectors, rows * vectors,
      kToHideLatency);
  if (open) t.why_size += "; a wide tile has accumulators enough where few rows are left over";
  if (t.beside)
    t.why_size +=
        fmt::format("; the rows are {} of {} by {} of {}", t.rows, t.row->loop, beside, t.beside->loop);
  if (shares && target.is_narrow()) {
    const Slots slots = slots_of_step(static_cast<double>(rows), static_cast<double>(vectors), target);
    t.why_size +=
        fmt::format("; a step has {} micro-operations, and the core can issue {} in the cycles of its FMAs",
                    slots.taken, slots.there);
  }
  if (streams) t.why_size += "; rows come from beyond L2, and less often for a wider tile";
  if (stores_wait)
    t.why_size += fmt::format("; at most {} stores: the next sums of {} end before more have left the core",
                              most_stored(b, target), b.reduction_size());
  if (shares && crowded)
    t.why_size += fmt::format("; more than {} rows would conflict in a set of L1, which has {} lines",
                              in_cache, target.l1_ways);
}

void even_rows(Tile& t, const BlockInfo& b, const Target& target) {
  if (!t.row || t.row->extent % t.rows == 0 || work_of(b, target).microseconds() < target.parallel_us) return;
  int64_t around = 1;
  for (const Iter* i : b.spatial())
    if (i != t.row) around *= ceil_div(i->extent, in_tile(t, i));
  if (around < 2 || around >= target.cores) return;
  for (int64_t rows = t.rows - 1; rows >= (t.rows + 1) / 2; --rows)
    if (t.row->extent % rows == 0) {
      t.why_size +=
          fmt::format("; {} rows instead of {} divide evenly: {} tiles around them are too few for {} cores",
                      rows, t.rows, around, target.cores);
      t.rows = rows;
      return;
    }
}

}  // namespace nestor::library
