// A product of few rows whose wide operand isn't packed and comes from behind the second-level cache: each
// of its elements is used once or a few times, so that it is a stream, and a copy would cost as much as the
// product does. A tile of columns over the whole reduction reads a line or a few of each row, the rows apart:
// each lies in another page, and nothing foresees it. So the reduction goes in parts of a few rows, which are
// read from front to back side by side, and a tile adds what a part gives to what the parts before gave; the
// results stay in the cache:
//
//   threads' columns | parts of the reduction | column tiles | row tiles | steps of a part | tile
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
// MB, 96x300x6144, 4.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/part_of_sum.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kSteps = 8, kCopiedSteps = 64;  // of a part
constexpr int64_t kLeastParts = 8;
constexpr int64_t kMostRowTiles = 3;            // more rows pay for a copy
constexpr int64_t kNear = 12, kNearCopied = 2;  // second-level caches: less is near for several rows
constexpr int64_t kMostCopied = 96;             // rows
constexpr int64_t kLeastRow = 2048;             // bytes of a row for each thread: less is no stream

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
    if (wide || a.constant || !lies_in_rows || (t.row && a.uses(*t.row)) || !find_param(s.func(), a.buffer))
      return nullptr;
    wide = &a;
  }
  return factors == 2 ? wide : nullptr;
}

// The tile, if the block is such a product.
std::optional<Tile> tile_of_stream(const Schedule& s, const BlockInfo& b, const Target& target) {
  if (target.far_l3() || target.is_narrow() || target.vector_bits != 256) return std::nullopt;
  if (!b.affine_loops || b.reduced().size() != 1 || b.reduced()[0]->loop.empty()) return std::nullopt;
  const auto comes_from_behind = [&](const Access& a) {
    return !a.write && !a.constant && a.elements * bytes_of(DType::f32) > target.l2_bytes;
  };
  if (std::none_of(b.accesses.begin(), b.accesses.end(), comes_from_behind)) return std::nullopt;
  const Tile t = choose_tile(b, target);
  if (!t.vector || t.column || t.turned || t.taps || t.vector->extent <= t.width) return std::nullopt;
  if (!t.packed.empty() || !t.panels.empty()) return std::nullopt;
  int64_t results = bytes_of(DType::f32);
  for (const Iter* i : b.spatial()) {
    if (i != t.row && i != t.vector && i->extent > 1) return std::nullopt;
    results *= i->extent;
  }
  const Access* wide = streamed_rows(s, b, t);
  if (!wide) return std::nullopt;
  const int64_t size = wide->elements * bytes_of(DType::f32), steps = b.reduction_size();
  const int64_t row = t.vector->extent * bytes_of(DType::f32) / target.cores;  // a thread's part
  if (target.cores > 1 && row < kLeastRow) return std::nullopt;
  const int64_t rows = t.row ? t.row->extent : 1, l2 = target.l2_bytes;
  const bool streams = t.copied.empty() && size > (rows > 1 ? kNear : 1) * l2 && results <= l2 / 4 &&
                       steps >= kLeastParts * kSteps && rows <= kMostRowTiles * t.rows;
  const bool copies = t.row && t.copies_whole(wide->buffer) && size > kNearCopied * l2 && results <= l2 &&
                      steps >= 2 * kCopiedSteps && rows <= kMostCopied;
  if (!streams && !copies) return std::nullopt;
  return t;
}

void schedule_parts(Schedule& s, const BlockInfo& b, const Tile& t, const Target& target) {
  const bool copies = !t.copied.empty();
  const int64_t steps = copies ? kCopiedSteps : kSteps;
  const std::string &block = b.name, &k = b.reduced()[0]->loop, &j = t.vector->loop;
  const Work work = work_of(b, target);
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  words.reduced = {k};
  for (const Buffer& buffer : t.copied) copy_operand(s, block, buffer, t, words);
  s.because(
      copies ? fmt::format("a copy of {} rows stays in the cache while {} rows use it", steps, t.row->extent)
             : fmt::format("its rows come from behind the second-level cache, and each is used for {} at "
                           "most: {} of them are read side by side, from front to back",
                           t.row ? t.row->extent : 1, steps));
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", k, block, steps));
  const BlockInfo p = factor_part(s, b, k, {k + "1"});
  const Tile of_part = tile_in(p, t);

  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", j, block, words.width));
  std::string columns = j + "0", row = t.row ? t.row->loop : "";
  std::vector<std::string> outside, order;
  if (target.cores > 1) {
    s.because("each thread has its own columns through all parts");
    s(fmt::format("{0}c {0}t = split {1}.{0}0 [_, {2}] tail=balanced", j, block,
                  ceil_div(ceil_div(t.vector->extent, t.width), target.cores)));
    outside.push_back(j + "c");
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
  if (!copies) s(fmt::format("unroll {}.{}1", p.name, k));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}0", block, k));
  share_loops(s, block, outside, work, target);
  if (!copies) return;
  steps_at_once(s, p.name, of_part, k + "1", target);
  for (const Buffer& buffer : t.copied) {
    s(fmt::format("compute_at {}_packed {}.{}0", buffer->name, block, k));
    vectorize_inside(s, buffer->name + "_packed", target);
  }
}

}  // namespace

bool row_parts(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const std::optional<Tile> t = tile_of_stream(s, b, target);
  if (!t) return false;
  Schedule parts = s;
  schedule_parts(parts, b, *t, target);
  s = parts;
  return true;
}

}  // namespace nestor::library
