// A product of few rows whose wide operand isn't packed and comes from behind the second-level cache: each
// of its elements is used once or a few times, so that it is a stream, and a copy would cost as much as the
// product does. A tile of columns over the whole reduction reads a line or a few of each row, the rows apart:
// each lies in another page, and nothing foresees it. So the reduction goes in parts of a few rows, which are
// read from front to back side by side, and a tile adds what a part gives to what the parts before gave; the
// results stay in the cache:
//
//   threads' columns | batches | parts of the reduction | column tiles | row tiles | steps of a part | tile
//
// (The order in which libraries multiply vectors by matrices: OpenBLAS's gemv. Zen 3, 512 KB of second-level
// cache, beside others' use of the third: 1x1600x1322 half of the time, 6x1600x1322 a fourth, 2 to 4 rows 60
// to 70 %. Parts of 4 and 16 steps 5 to 20 % slower than of 8. What is near and is asked for ahead,
// prefetch_steps.cpp, is no stream: 6x400x400, 640 KB, 50 % more time, 4x300x2500, 3 MB, 14, 6x1400x1000,
// 5.6 MB, 40; 6x1600x1000, 6.4 MB, less, as one row is, 1x400x400. By two threads 6x1600x700 70 % more.)
//
// Of more rows a copy pays, but the whole one goes to memory and comes back from there. So one of a part is
// made as it begins, of more steps, since results are read and written once for each. (24x1600x1322 and
// 32x2048x2048 half of the time, 48x1024x1024 four fifths, 64x4096x1024 three quarters, 80x1600x1322 8 %
// less; 128 rows and more no less. Parts of 32 steps 7 % more time than of 64, of 128 as much; results of 2.4
// MB, 96x300x6144, 4.) So is one where the whole operand comes from memory, however it lies, and so do the
// products of a batch. (Beside the libraries: 20x1828x1815 40 % less time, 16x1000x1322 15; 8 of 20x792x209
// half, 12 of 16x600x500, 24 of 8x600x500 and 8 of 30x456x673 40 % less, 4 of 6x1600x1322, as a stream, a
// quarter. Of 4 MB, 12x1035x960 and 30x704x1168, 10 to 40 more.)
//
// What is near is still read in such parts where a panel's rows meet in few sets of the first-level cache: it
// doesn't stay there for the next row tile, and what is asked for ahead drives out what isn't used yet. A
// part is of the steps whose lines stay, or of as many as pay for results that are read and written once for
// each. (Zen 3: 6 to 48 rows of 492x384 and 1000x384 25 to 45 % less time, of 492x768 and 1000x640 10 to 30,
// of 300x1024 and 300x2048 20, by two threads alike. Parts of 8 steps 20 to 50 % more of 4 rows and more, 10
// to 30 less of 2 and 3; of 64, whose lines don't stay, 15 % more for 4x700x1024 and 6x300x1024. What the
// second level holds, 6 to 32 rows of 330x384 and 130x768, 5 to 10 % more.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/part_of_sum.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kSteps = 8, kMeetingSteps = 32, kCopiedSteps = 64;  // of a part
constexpr int64_t kLeastParts = 8;
constexpr int64_t kFewRows = 3;                         // a step is too short for results to come and go
constexpr int64_t kMostRowTiles = 3;                    // more rows pay for a copy
constexpr int64_t kNear = 12, kNearCopied = 2;          // second-level caches: less is near for several rows
constexpr int64_t kFar = 10;                            // more of all batches comes from memory
constexpr int64_t kMostMeeting = 48, kMostCopied = 96;  // rows
constexpr int64_t kProductsForThreads = 4;              // for each
constexpr int64_t kLeastRow = 2048;                     // bytes of a row for each thread: less is no stream

// The operand that moves with the columns and the reduction, not with rows, as it lies in memory; null where
// none does.
const Access* streamed_rows(const Schedule& s, const BlockInfo& b, const Tile& t) {
  const Access* wide = nullptr;
  int64_t factors = 0;
  for (const Access& a : b.accesses) {
    if (a.buffer->type.dtype != DType::f32) return nullptr;
    factors += !a.write;
    if (a.write || !a.uses(*t.vector)) continue;
    const bool lies_in_rows = a.stride(*t.vector) == 1 && a.uses(*b.reduced()[0]) &&
                              a.stride(*b.reduced()[0]).value_or(0) >= t.vector->extent;
    if (wide || a.constant || !lies_in_rows || !a.has_plain_indices() || (t.row && a.uses(*t.row)) ||
        !find_param(s.func(), a.buffer))
      return nullptr;
    wide = &a;
  }
  return factors == 2 ? wide : nullptr;
}

struct FewRows {
  Tile tile;
  std::vector<std::string> batches;  // loops over products, each with a wide operand of its own
  bool shares_columns = false;       // each thread has some
  bool has_long_rows = true;         // of the wide operand, for each thread
  const Access* wide = nullptr;
  int64_t rows = 1, products = 1;
  int64_t wide_bytes = 0, result_bytes = 0;  // of one product
};

std::optional<FewRows> find_few_rows(const Schedule& s, const BlockInfo& b, const Target& target) {
  if (target.far_l3() || target.is_narrow() || target.vector_bits != 256) return std::nullopt;
  if (!b.affine_loops || b.reduced().size() != 1 || b.reduced()[0]->loop.empty()) return std::nullopt;
  const auto comes_from_behind = [&](const Access& a) {
    return !a.write && !a.constant && a.elements * bytes_of(DType::f32) > target.l2_bytes;
  };
  if (std::none_of(b.accesses.begin(), b.accesses.end(), comes_from_behind)) return std::nullopt;
  const Tile t = choose_tile(b, target);
  if (!t.vector || t.column || t.turned || t.taps || t.vector->extent <= t.width) return std::nullopt;
  if (!t.packed.empty() || !t.panels.empty()) return std::nullopt;
  FewRows f;
  f.tile = t;
  f.wide = streamed_rows(s, b, t);
  if (!f.wide) return std::nullopt;
  f.result_bytes = bytes_of(DType::f32);
  for (const Iter* i : b.spatial()) {
    const bool is_batch = i != t.row && i != t.vector && i->extent > 1;
    if (is_batch && !f.wide->uses(*i)) return std::nullopt;
    if (is_batch) f.batches.push_back(i->loop);
    (is_batch ? f.products : f.result_bytes) *= i->extent;
  }
  if (t.row) f.rows = t.row->extent;
  f.wide_bytes = f.wide->elements / f.products * bytes_of(DType::f32);
  f.shares_columns = target.cores > 1 && f.products < kProductsForThreads * target.cores;
  f.has_long_rows = !f.shares_columns || t.vector->extent * bytes_of(DType::f32) / target.cores >= kLeastRow;
  return f;
}

struct Parts {
  int64_t steps = kSteps;  // of each
  bool copied = false;
  std::string why;
};

// The steps of a part where the rows of a panel meet in the first-level cache; else 0.
int64_t steps_that_stay(const FewRows& f, const BlockInfo& b, const Target& target) {
  const int64_t pitch = f.wide->stride(*b.reduced()[0]).value_or(0) * bytes_of(DType::f32);
  const auto stay = [&](int64_t steps) {
    return lines_in_a_set(pitch, steps, l1_sets(target)) <= target.l1_ways;
  };
  if (!meet_in_l1(pitch, target) || stay(b.reduction_size())) return 0;
  if (f.has_long_rows && f.rows <= kFewRows) return kSteps;
  return stay(2 * kMeetingSteps) ? 2 * kMeetingSteps : kMeetingSteps;
}

std::optional<Parts> choose_parts(const FewRows& f, const BlockInfo& b, const Target& target) {
  const int64_t steps = b.reduction_size(), l2 = target.l2_bytes;
  if (steps < kLeastParts * kSteps || f.result_bytes > l2) return std::nullopt;
  const bool in_place = f.tile.copied.empty();
  if (in_place && f.has_long_rows && f.wide_bytes > (f.rows > 1 ? kNear : 1) * l2 &&
      f.result_bytes <= l2 / 4 && f.rows <= kMostRowTiles * f.tile.rows)
    return Parts{kSteps, false,
                 fmt::format("its rows come from beyond L2, and each is used for at most {}: {} of them are "
                             "packed together and read in order",
                             f.rows, kSteps)};
  const bool far = f.tile.copies_whole(f.wide->buffer) ? f.wide_bytes > kNearCopied * l2
                                                       : in_place && f.products * f.wide_bytes > kFar * l2;
  if (far && f.has_long_rows && f.rows > kFewRows && f.rows <= kMostCopied && steps >= 2 * kCopiedSteps)
    return Parts{
        kCopiedSteps, true,
        fmt::format("a copy of {} rows stays in the cache while {} rows use it", kCopiedSteps, f.rows)};
  const bool near = f.wide_bytes > l2 && f.wide_bytes <= kNear * l2;
  if (!in_place || !near || f.rows < 2 || f.rows > kMostMeeting || steps < kLeastParts * kMeetingSteps)
    return std::nullopt;
  const int64_t stay = steps_that_stay(f, b, target);
  if (stay == 0) return std::nullopt;
  return Parts{stay, false,
               fmt::format("its rows cause set conflicts in L1, so a panel wouldn't stay there: {} of them "
                           "are packed together and read in order",
                           stay)};
}

void schedule_parts(Schedule& s, const BlockInfo& b, const FewRows& f, const Parts& parts,
                    const Target& target) {
  const Tile& t = f.tile;
  const std::string &block = b.name, &k = b.reduced()[0]->loop, &j = t.vector->loop;
  const Work work = work_of(b, target);
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  words.reduced = {k};
  if (parts.copied) copy_operand(s, block, f.wide->buffer, t, words);
  s.because(parts.why);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", k, block, parts.steps));
  const BlockInfo p = factor_part(s, b, k, {k + "1"});
  const Tile of_part = tile_in(p, t);

  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", j, block, words.width));
  std::string columns = j + "0", row = t.row ? t.row->loop : "";
  std::vector<std::string> outside = f.batches, order;
  if (f.shares_columns) {
    s.because("each thread keeps its columns for all blocks of k");
    s(fmt::format("{0}c {0}t = split {1}.{0}0 [_, {2}] tail=balanced", j, block,
                  ceil_div(ceil_div(t.vector->extent, t.width), target.cores)));
    outside.insert(outside.begin(), j + "c");
    columns = j + "t";
  }
  order = outside;
  order.insert(order.end(), {k + "0", columns});
  if (!words.rows.empty()) {
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", row, block, words.rows));
    order.push_back(row + "0");
    row += "1";
  }
  AddingTile adding{block, order.back(), j + "1", {}};
  if (t.row) adding.unrolled = {row};
  if (t.row) order.push_back(row);
  order.push_back(j + "1");
  s(fmt::format("reorder {} ({})", block, schedules::join(order)));

  compute_part(s, p, adding);
  keep_part(s, p, of_part, adding, {k + "1"});
  const bool is_short = parts.steps == kSteps;
  if (is_short) s(fmt::format("unroll {}.{}1", p.name, k));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}0", block, k));
  share_loops(s, block, outside, work, target);
  if (!is_short) steps_at_once(s, p.name, of_part, k + "1", target);
  if (!parts.copied) return;
  const std::string& operand = f.wide->buffer->name;
  s(fmt::format("compute_at {}_packed {}.{}0", operand, block, k));
  vectorize_inside(s, operand + "_packed", target);
  const std::string step = extent_of(s, p.name, k + "1p") > 0 ? k + "1p" : k + "1";
  s.because("the next block's rows are fetched while this one's copy is used");
  s.try_step(fmt::format("prefetch {0}_packed.{1}0 {0} distance=1 shares={2}.{3}", operand, k, p.name, step));
}

}  // namespace

bool row_parts(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const std::optional<FewRows> few = find_few_rows(s, b, target);
  const std::optional<Parts> parts = few ? choose_parts(*few, b, target) : std::nullopt;
  if (!parts) return false;
  Schedule tried = s;
  schedule_parts(tried, b, *few, *parts, target);
  s = tried;
  return true;
}

}  // namespace nestor::library
