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
// products of a batch. (Beside the libraries: 20x1828x1815 40 % less time, 32x1000x1322 30, 16x1000x1322 15;
// 8 of 20x792x209 half, 12 of 16x600x500, 24 of 8x600x500 and 8 of 30x456x673 40 % less, 4 of 32x1000x1322
// 35, 4 of 6x1600x1322, as a stream, a quarter. Of 4 MB, 12x1035x960 and 30x704x1168, 10 to 40 more.)
//
// What is near is still read in such parts where a panel's rows meet in few sets of the first-level cache: it
// doesn't stay there for the next row tile, and what is asked for ahead drives out what isn't used yet. A
// part is of the steps whose lines stay, or of as many as pay for results that are read and written once for
// each. (Zen 3: 6 to 48 rows of 492x384 and 1000x384 25 to 45 % less time, of 492x768 and 1000x640 10 to 30,
// of 300x1024 and 300x2048 20, by two threads alike. Parts of 8 steps 20 to 50 % more of 4 rows and more, 10
// to 30 less of 2 and 3; of 64, whose lines don't stay, up to twice for 6x700x2048 and 4x1300x1024, and more
// for what is far. What the second level holds, 6 to 32 rows of 330x384 and 130x768, 5 to 10 % more.)
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
constexpr int64_t kBatchesForThreads = 4;               // for each
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
    for (const Expr& e : a.indices)
      if (!e.as<VarRef>() && !as_int(e)) return nullptr;
    if (wide || a.constant || !lies_in_rows || (t.row && a.uses(*t.row)) || !find_param(s.func(), a.buffer))
      return nullptr;
    wide = &a;
  }
  return factors == 2 ? wide : nullptr;
}

struct Parts {
  Tile tile;
  std::vector<std::string> batches;  // loops over products, each with a wide operand of its own
  bool shares_columns = false;       // each thread has some
  int64_t steps = kSteps;            // of each
  std::string why;

  Parts& of(int64_t n, std::string reason) {
    steps = n;
    why = std::move(reason);
    return *this;
  }
};

// The steps of a part where the rows that `wide` has in a panel meet in the first-level cache; else 0.
int64_t steps_that_stay(const BlockInfo& b, const Access& wide, const Target& target) {
  const int64_t sets = target.l1_bytes / target.l1_ways / kLine;
  const int64_t pitch = wide.stride(*b.reduced()[0]).value_or(0) * bytes_of(DType::f32);
  const auto stay = [&](int64_t steps) { return lines_in_a_set(pitch, steps, sets) <= target.l1_ways; };
  if (2 * lines_in_a_set(pitch, sets, sets) <= target.l1_ways || stay(b.reduction_size())) return 0;
  return stay(2 * kMeetingSteps) ? 2 * kMeetingSteps : kMeetingSteps;
}

// The parts, if the block is such a product.
std::optional<Parts> parts_of_stream(const Schedule& s, const BlockInfo& b, const Target& target) {
  if (target.far_l3() || target.is_narrow() || target.vector_bits != 256) return std::nullopt;
  if (!b.affine_loops || b.reduced().size() != 1 || b.reduced()[0]->loop.empty()) return std::nullopt;
  const auto comes_from_behind = [&](const Access& a) {
    return !a.write && !a.constant && a.elements * bytes_of(DType::f32) > target.l2_bytes;
  };
  if (std::none_of(b.accesses.begin(), b.accesses.end(), comes_from_behind)) return std::nullopt;
  const Tile t = choose_tile(b, target);
  if (!t.vector || t.column || t.turned || t.taps || t.vector->extent <= t.width) return std::nullopt;
  if (!t.packed.empty() || !t.panels.empty()) return std::nullopt;
  const Access* wide = streamed_rows(s, b, t);
  if (!wide) return std::nullopt;
  Parts parts;
  parts.tile = t;
  int64_t results = bytes_of(DType::f32), batches = 1;
  for (const Iter* i : b.spatial()) {
    const bool walks = i != t.row && i != t.vector && i->extent > 1;
    if (walks && !wide->uses(*i)) return std::nullopt;
    if (walks) parts.batches.push_back(i->loop);
    (walks ? batches : results) *= i->extent;
  }
  parts.shares_columns = target.cores > 1 && batches < kBatchesForThreads * target.cores;
  const int64_t size = wide->elements / batches * bytes_of(DType::f32), steps = b.reduction_size();
  const int64_t sharing = parts.shares_columns ? target.cores : 1;
  const int64_t row = t.vector->extent * bytes_of(DType::f32) / sharing;  // a thread's part
  const int64_t rows = t.row ? t.row->extent : 1, l2 = target.l2_bytes;
  const bool is_stream = sharing == 1 || row >= kLeastRow;
  const bool lies_well = t.copied.empty();
  if (steps < kLeastParts * kSteps || results > l2) return std::nullopt;
  if (lies_well && is_stream && size > (rows > 1 ? kNear : 1) * l2 && results <= l2 / 4 &&
      rows <= kMostRowTiles * t.rows)
    return parts.of(kSteps,
                    fmt::format("its rows come from behind the second-level cache, and each is used for {} "
                                "at most: {} of them are read side by side, from front to back",
                                rows, kSteps));
  const bool copied = t.row && t.copies_whole(wide->buffer);
  const bool pays = copied ? size > kNearCopied * l2 : lies_well && batches * size > kFar * l2;
  if (is_stream && pays && rows > kFewRows && rows <= kMostCopied && steps >= 2 * kCopiedSteps) {
    parts.tile.copied = {wide->buffer};
    return parts.of(kCopiedSteps, fmt::format("a copy of {} rows stays in the cache while {} rows use it",
                                              kCopiedSteps, rows));
  }
  int64_t stay = steps_that_stay(b, *wide, target);
  if (is_stream && rows <= kFewRows) stay = std::min(stay, kSteps);
  if (!lies_well || rows < 2 || rows > kMostMeeting || size <= l2 || size > kNear * l2 || stay == 0 ||
      steps < kLeastParts * kMeetingSteps)
    return std::nullopt;
  return parts.of(stay, fmt::format("its rows meet in few sets of the first-level cache, which wouldn't hold "
                                    "a panel: {} of them are read side by side, from front to back",
                                    stay));
}

void schedule_parts(Schedule& s, const BlockInfo& b, const Parts& parts, const Target& target) {
  const Tile& t = parts.tile;
  const std::string &block = b.name, &k = b.reduced()[0]->loop, &j = t.vector->loop;
  const Work work = work_of(b, target);
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  words.reduced = {k};
  for (const Buffer& buffer : t.copied) copy_operand(s, block, buffer, t, words);
  s.because(parts.why);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", k, block, parts.steps));
  const BlockInfo p = factor_part(s, b, k, {k + "1"});
  const Tile of_part = tile_in(p, t);

  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", j, block, words.width));
  std::string columns = j + "0", row = t.row ? t.row->loop : "";
  std::vector<std::string> outside = parts.batches, order;
  if (parts.shares_columns) {
    s.because("each thread has its own columns through all parts");
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
  for (const Buffer& buffer : t.copied) {
    s(fmt::format("compute_at {}_packed {}.{}0", buffer->name, block, k));
    vectorize_inside(s, buffer->name + "_packed", target);
    const std::string step = extent_of(s, p.name, k + "1p") > 0 ? k + "1p" : k + "1";
    s.because("the next part's rows come while this one's copy is used");
    s.try_step(
        fmt::format("prefetch {0}_packed.{1}0 {0} distance=1 shares={2}.{3}", buffer->name, k, p.name, step));
  }
}

}  // namespace

bool row_parts(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const std::optional<Parts> p = parts_of_stream(s, b, target);
  if (!p) return false;
  Schedule parts = s;
  schedule_parts(parts, b, *p, target);
  s = parts;
  return true;
}

}  // namespace nestor::library
