// A convolution of many channels with few outputs: what one tile of columns reads of the weights, a panel, is
// larger than the second-level cache holds together with the next one, and each tile of rows reads all of it
// again. So the reduction goes in parts of its channels; all tiles of rows pass over a part of a panel, while
// the next part is asked for (stream_panels.cpp), and add to what the parts before gave:
//
//   column tiles | parts of the channels | other S loops, row tiles | R loops of a part | tile
//
// The results of a tile of columns are read and written once for each part: they are few, and stay in the
// cache. An epilogue comes after, by itself. Threads share the tiles of columns, or, where that leaves some
// idle, lines of the image in each part.
//
// (Emerald Rapids, 2 MB: 7x7 of 320 channels to 40 at 28x28, one tile of columns, 10.5 to 6.0 ms, by strides
// of 2 of 480 to 40 at 30 5.0 to 2.7, 5x5 of 480 to 40 at 14 1.75 to 1.15, of 96 to 16 at 28 0.45 to 0.31; of
// 5 blocks of filters, one a tile, 15 rows of it, 7x7/2 of 480 to 80 at 30 10.0 to 4.7.)
//
// What such a part reads of the image is asked for a step over its channels ahead where the second-level
// cache doesn't hold it, or not a quarter of the image, and the third is near: others' use of that makes it
// late. (Zen 3, 3x3/2: 400-48@54 4.4 to 3.1 ms, 384-192@60 20 to 15 beside such, alone 3 to 6 % more; of
// smaller images whose parts stay 2 to 13 more.)
//
// Near the third level a large second one leaves that to panels which it doesn't hold alone, and only if they
// pass for few outputs of a row each time. (Zen 5, 1 MB, nine works of random shapes 5 to 50 % less time:
// 7x7/2 of 320 channels to 48 at 19 0.61 to 0.47 ms, 7x7 of 256 to 128 at 21 5.1 to 4.6, 5x5/2, 8 images of
// 380 to 320 at 3x3 0.91 to 0.46. Of smaller panels, 0.75 to 1 MB, 5 % more to 30 less; for rows of 34 and 45
// outputs 5 to 9 more.)
//
// Otherwise only where the third level is far, or the second one small. (Cascade Lake, 1 MB of second-level
// cache: 3x3 over 512 channels at 7x7, panels of 576 KiB, in parts of 144 35 % less time; over 256 at 14x14,
// panels of 288 KiB, 5 %. Zen 3, 512 KB: 3x3 over 512 at 7x7, panels of 288 KiB, 9 %, over 256 at 14x14 3.)
//
// A part of a panel that takes at most half of the first-level cache is better still where the third level is
// near, if threads share tiles of columns. Where channels lie in blocks a part has whole
// ones, and the last part what is left.
//
// If it is the image that takes much of it beside panels, and no window slides over that, each of whose lines
// is used few times, then parts are outermost:
//
//   parts of the channels | column tiles | other S loops, row tiles | R loops of a part | tile
//
// A part of the image stays in the second-level cache while all columns pass, a part of a panel in the first
// level while all rows do. All results are read and written once for each part. (Zen 3, 1x1 over 2048
// channels at 7x7 to 512, in 8 parts 31 % less time, in 4 20.) (The outer loops of Goto and van de Geijn,
// Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008.)
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "nestor/walk.h"
#include "schedules/library/part_of_sum.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

// The weights: constant, they move with the columns and not with the rows. Null where there are none, or
// several, or an operand isn't f32.
const Access* weights_of(const BlockInfo& b, const Tile& t) {
  const Access* weights = nullptr;
  for (const Access& a : b.accesses) {
    if (a.buffer->type.dtype != DType::f32) return nullptr;
    if (!a.constant || !a.uses(*t.column) || a.uses(*t.row)) continue;
    if (weights) return nullptr;
    weights = &a;
  }
  return weights;
}

// Channels that lie in blocks of so many, the last one not full; 1: they don't.
int64_t block_of_channels(const BlockInfo& b) {
  const auto blocks = reduced_in_blocks(b);
  const auto it = blocks.find(b.reduced().front()->loop);
  return it == blocks.end() ? 1 : it->second;
}

bool fits_form(const BlockInfo& b, const Tile& t) {
  return b.affine_loops && t.vector && t.row && t.column && t.width == t.vector->extent && !t.turned &&
         !t.taps && t.copied.empty() && t.panels.empty() && !b.reduced().empty() &&
         !b.reduced().front()->loop.empty() && (b.reduced().size() > 1 || block_of_channels(b) > 1);
}

int64_t panel_bytes(const BlockInfo& b, const Tile& t) {
  return b.reduction_size() * t.columns * t.width * bytes_of(DType::f32);
}

// The block as it is within one part of its first reduction loop. Parts are of whole blocks, where channels
// lie in such, and the last one then has what is left: addresses in others would be made of a quotient at
// every step. (Zen 3, 342 channels in blocks of 8, 2x2x2 to 16 at 13x7x6, in 3 parts of 114 1.8 ms, of 120
// 0.25; 518, 3x3/2 to 96 at 27x22, in 7 of 74 1.52, of 80 1.40.)
BlockInfo part_of(BlockInfo b, int64_t parts) {
  const int64_t block = block_of_channels(b);
  for (Iter& i : b.iters)
    if (i.loop == b.reduced().front()->loop) {
      i.extent = ceil_div(ceil_div(i.extent, parts), block) * block;
      break;
    }
  return b;
}

// As many rows as make up for few columns, in equal tiles: where a core loads two vectors for two FMAs, those
// of a row each may all come from memory. False where rows, or registers, are too few.
bool take_more_rows(Tile& t, const Target& target) {
  constexpr int64_t kMost = 16, kLeast = 12, kRegisters = 32;
  if (target.is_narrow() || target.vector_registers < kRegisters) return false;
  const int64_t rows = ceil_div(t.row->extent, ceil_div(t.row->extent, kMost / t.columns));
  if (rows * t.columns < kLeast) return false;
  t.rows = rows;
  return true;
}

// Columns that leave none over; on a narrow core as many as registers hold where FMAs take the rows' elements
// from memory, which is fewer micro-operations: 7 x 4 accumulators and 4 vectors take 35 of 56 slots, 7 x 2
// 26 of 28 (Cascade Lake: 10 % less time). Nothing where that is half as many as elsewhere, or fewer: the
// parts would win less than that loses (7x7 of 46 to 112 channels at 15, 1 column of 7 instead of 3, 1.8
// times the time).
std::optional<Tile> choose_part_tile(const BlockInfo& part, const Target& target) {
  Tile t = choose_tile(part, target);
  if (!fits_form(part, t)) return std::nullopt;
  const int64_t columns = t.columns;
  if (target.is_narrow() && t.rows == t.row->extent)
    t.columns = std::clamp<int64_t>(target.vector_registers / (t.rows + 1), columns, 4);
  while (t.column->extent % t.columns != 0) --t.columns;
  if (2 * t.columns <= columns && !take_more_rows(t, target)) return std::nullopt;
  if (t.columns != columns)
    t.why_size += fmt::format("; {} columns divide {}, and {} vectors fit in the registers", t.columns,
                              t.column->extent, (t.rows + 1) * t.columns);
  return t;
}

// The fewest parts, equal but for what blocks leave, of whose panels none is larger than `most` bytes; 1:
// there are none.
int64_t choose_parts(const BlockInfo& b, int64_t most, const Target& target) {
  const int64_t channels = b.reduced().front()->extent;
  for (int64_t parts = 2; parts <= channels; ++parts) {
    const BlockInfo part = part_of(b, parts);
    if (ceil_div(channels, part.reduced().front()->extent) != parts) continue;
    const std::optional<Tile> t = choose_part_tile(part, target);
    if (part.reduction_size() < kLeastPart || !t) return 1;
    if (panel_bytes(part, *t) <= most) return parts;
  }
  return 1;
}

struct Parts {
  int64_t count = 1;
  bool outermost = false;
  std::string why = {};
  int64_t channels = 1;
  int64_t steps = 1;       // over channels, of one part; of the last perhaps fewer
  int64_t block = 1;       // of channels, the last one not full
  bool by_columns = true;  // threads share tiles of columns, else lines of the image in each part
  bool rest() const { return count * steps != channels; }
};

// Of all that moves with the rows.
int64_t image_bytes(const BlockInfo& b, const Tile& t) {
  std::map<const Iter*, int64_t> all;
  for (const Iter& i : b.iters) all[&i] = i.extent;
  int64_t n = 0;
  for (const Access& a : b.accesses)
    if (!a.write && a.uses(*t.row) && !a.uses(*t.column)) n += bytes_read(a, all, b);
  return n;
}

// For a part of an image, of which `sharing` threads read some lines each, where the second-level cache
// doesn't hold it, or by far not the image: a near third level gives it late beside others' use of that.
void ask_for_image(Schedule& s, const std::string& sums, const BlockInfo& b, const Tile& t, int64_t parts,
                   int64_t sharing, const Target& target) {
  const int64_t part = image_bytes(b, t) / sharing;  // weights pass beside it
  const bool stays = part <= target.l2_bytes * 7 / 8 && part * parts <= 4 * target.l2_bytes;
  if (target.far_l3() || stays) return;
  const std::string c = b.reduced().front()->loop + "1", channels = extent_of(s, sums, c) < 0 ? c + "0" : c;
  for (const Access& a : analyze(s.func(), sums).accesses) {  // without the padding that was inlined
    if (a.write || a.constant || !find_param(s.func(), a.buffer)) continue;
    s.because(
        fmt::format("{} KiB of {} come from beyond L2 for each block of k", part / 1024, a.buffer->name));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1", sums, channels, a.buffer->name));
  }
}

// The loop over parts, outside of one over the channels of a part.
void cut_parts(Schedule& s, const std::string& block, const std::string& c, const Parts& parts) {
  s.because(parts.why);
  if (parts.rest())
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", c, block, parts.steps));
  else
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [{2}, _]", c, block, parts.count));
}

// Cuts a part's channels `c`1 into blocks, as words.reduced has c; gives the order of all reduction loops.
std::vector<std::string> cut_blocks(Schedule& s, const std::string& sums, const std::string& c,
                                    const Parts& parts, const TileWords& words) {
  s.because(fmt::format("{} has a blocked layout of {}, and the last block is partial", c, parts.block));
  s(fmt::format("{0}10 {0}11 = split {1}.{0}1 [_, {2}]", c, sums, parts.block));
  if (parts.rest()) s(fmt::format("annotate {}.{}10 peel=1", sums, c));
  std::vector<std::string> order = words.reduced;
  std::replace(order.begin(), order.end(), c + "1", c + "11");
  std::replace(order.begin(), order.end(), c + "0", c + "10");
  return order;
}

void schedule_parts(Schedule& s, const BlockInfo& b, const Tile& t, const Parts& parts, const Work& work,
                    const Target& target) {
  const std::string &block = b.name, &c = b.reduced().front()->loop;
  const SkippedPadding taps = skip_padding(s, block, t, target);
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  if (parts.block > 1) words.blocks[c] = parts.block;
  words.reduced = reduction_order(b, taps.first, words.blocks, target);
  for (const Buffer& buffer : t.packed) pack(s, block, buffer, words);

  std::vector<std::string> others;
  for (const Iter* i : b.spatial())
    if (!i->loop.empty() && i != t.row && i != t.column && i != t.vector && i->extent > 1)
      others.push_back(i->loop);
  std::vector<std::string> reduced = reduction_order(b, taps.first, {}, target);
  std::replace(reduced.begin(), reduced.end(), c, c + "1");
  cut_parts(s, block, c, parts);
  const BlockInfo p = factor_part(s, b, c, reduced);
  const Tile of_part = tile_in(p, t);

  const std::string columns = t.column->loop + "0";
  std::string row = t.row->loop;
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]", t.column->loop, block,
                words.columns.empty() ? std::to_string(t.columns) : words.columns));
  std::vector<std::string> order{columns, c + "0"};
  if (parts.outermost) std::swap(order[0], order[1]);
  order.insert(order.end(), others.begin(), others.end());
  if (!words.rows.empty()) {
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", row, block, words.rows));
    order.push_back(row + "0");
    row += "1";
  }
  const std::string at = order.back();
  for (const std::string& l : {row, t.column->loop + "1", t.vector->loop}) order.push_back(l);
  s(fmt::format("reorder {} ({})", block, join(order)));

  const AddingTile adding{block, at, t.vector->loop, {row, t.column->loop + "1"}};
  compute_part(s, p, adding);
  if (parts.block > 1) reduced = cut_blocks(s, p.name, c, parts, words);
  reduced = keep_part(s, p, of_part, adding, reduced);
  for (const std::string& l : taps.unrolled) s(fmt::format("unroll {}.{}", p.name, l));
  if (parts.rest()) {
    s.because("then all blocks but the last are alike");
    s(fmt::format("{0}_init = decompose_reduction {0}.{1}0", block, c));
  }
  if (parts.by_columns)
    share_loops(s, block, {columns}, work, target);
  else
    share_loops(s, block, others, work / static_cast<double>(parts.count), target);
  stream_panels(s, p.name, p, of_part, order[1], target);
  if (!target.is_narrow()) steps_at_once(s, p.name, of_part, reduced.back(), target);
}

bool takes_whole_columns(const Tile& t, const Target& target) {
  return t.column->extent / t.columns % std::max(1, target.cores) == 0;
}

// Parts whose panel stays in the first-level cache while rows pass, unless threads would meet at the end of
// each, which is short. (Zen 3, 3x3/2: 128 to 128 at 56 in 8 parts 8 % less time, 368 to 128 at 38x16 in 23
// instead of 3 5 %, 256 to 64 at 40 12; 5x5 by 8 channels up to 3.)
int64_t small_parts(const BlockInfo& b, const Target& target) {
  const int64_t count = choose_parts(b, target.l1_bytes / 2, target);
  const BlockInfo part = part_of(b, count);
  return count < 2 || takes_whole_columns(*choose_part_tile(part, target), target) ? count : 1;
}

// Empty, of one part, where parts would win nothing.
Parts parts_of(const BlockInfo& b, const Tile& whole, const Target& target) {
  const int64_t panel = panel_bytes(b, whole), image = image_bytes(b, whole), l2 = target.l2_bytes;
  const bool taps = std::any_of(b.accesses.begin(), b.accesses.end(),
                                [&](const Access& a) { return !a.write && has_taps(b, a); });
  const int64_t small = !target.far_l3() && taps && 8 * panel > l2 ? small_parts(b, target) : 1;
  if (small > 1 || 4 * panel > l2) {
    const int64_t count = small > 1 ? small : choose_parts(b, l2 / 6, target);  // two take a third of it
    return {count, false,
            fmt::format("{} KiB of weights for a tile of columns, and as much for the next one, don't fit in "
                        "the {}-level cache; each of {} blocks of k does",
                        panel / 1024, small > 1 ? "first" : "second", count)};
  }
  if (target.far_l3() || taps || image + 2 * panel <= l2 * 3 / 8) return {};
  // Five eighths of the cache for a part of the image and two of a panel.
  const int64_t beside = l2 * 5 / 8 * panel / (image + 2 * panel);
  const int64_t count = choose_parts(b, std::min(target.l1_bytes / 2, beside), target);
  return {count, true,
          fmt::format("{} KiB of image and panels of {} KiB of weights don't fit in L2; each of {} blocks of "
                      "k stays there for all columns",
                      image / 1024, panel / 1024, count)};
}

}  // namespace

bool panel_parts(Schedule& s, const std::string& block, const Target& target) {
  constexpr int64_t kSmallL2 = 512 << 10, kLinesOfThread = 3, kMostRowsNear = 28;
  const BlockInfo b = analyze(s.func(), block);
  if (b.reduced().empty()) return false;
  const Tile whole = choose_tile(b, target);
  if (!fits_form(b, whole)) return false;
  const bool near = !target.far_l3() && target.l2_bytes > kSmallL2;
  if (near && (panel_bytes(b, whole) <= target.l2_bytes || whole.row->extent > kMostRowsNear)) return false;
  const Access* weights = weights_of(b, whole);
  if (!weights || !weights->uses(*b.reduced().front())) return false;
  Parts parts = parts_of(b, whole, target);
  if (parts.count < 2) return false;
  const BlockInfo part = part_of(b, parts.count);
  parts.channels = b.reduced().front()->extent;
  parts.block = block_of_channels(b);
  parts.steps = part.reduced().front()->extent;
  const Tile t = *choose_part_tile(part, target);
  int64_t results = t.columns * t.width, rows = ceil_div(t.row->extent, t.rows), lines = 1;
  for (const Iter* i : b.spatial())
    if (i->loop != t.vector->loop && i->loop != t.column->loop) {
      results *= i->extent;
      if (i->loop != t.row->loop) lines *= i->extent;
    }
  const int64_t tiles = t.column->extent / t.columns, threads = std::max(1, target.cores);
  parts.by_columns = takes_whole_columns(t, target);
  if (rows * lines < 2 || (parts.outermost && tiles < 2)) return false;
  if (!parts.by_columns && (parts.outermost || lines < kLinesOfThread * threads)) return false;
  const int64_t passing = results * (parts.outermost ? tiles : 1) * bytes_of(DType::f32);
  if (passing > target.l2_bytes / (parts.outermost ? 4 : 8)) return false;
  try {
    Schedule split = s;
    schedule_parts(split, part, t, parts, work_of(b, target), target);
    if (!parts.outermost)
      ask_for_image(split, block + "_part", part, t, parts.count, parts.by_columns ? 1 : threads, target);
    s = split;
  } catch (const ScheduleError&) {
    return false;  // it isn't quite that form
  }
  return true;
}

}  // namespace nestor::library
