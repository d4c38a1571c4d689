// A map: lanes along the dimension that it stores next to each other, everything outside fused and parallel.
// What is repeated along them goes period by period: 100 x 77 elements ten times each way 2.5 to 0.15 ms.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr int64_t kVectors = 4;  // of a tile: independent work in flight

// Where a few masked stores put lanes that many elements apart.
bool stores_apart(const Access& a, int64_t stride, const Target& target) {
  constexpr int64_t kMost = 4, kLeastBytes = 4;
  return a.write && stride > 1 && stride <= kMost && bytes_of(a.buffer->type.dtype) >= kLeastBytes &&
         target.has_feature("avx512vl");
}

// How often the operand changes, of all iterations: little what is read there matters if it stays the same.
double share_of_changes(const BlockInfo& b, const Access& a) {
  double share = 1;
  for (const Iter* i : b.spatial())
    if (!a.uses(*i)) share /= static_cast<double>(std::max<int64_t>(1, i->extent));
  return share;
}

// The iterator along which most accesses are next to each other, the store above all. (Cascade Lake,
// BatchNormalization of [1,64,112,112] by four operands of 64 channels 5.6 to 0.5 ms.)
const Iter* choose_lanes(const BlockInfo& b, const Target& target) {
  const Iter* best = nullptr;
  double best_score = 0;
  for (const Iter* i : b.spatial()) {
    if (i->loop.empty() || i->extent < 2) continue;
    double score = 0;
    for (const Access& a : b.accesses) {
      const auto stride = a.stride(*i);
      const double share = share_of_changes(b, a);
      if (stride == 1)
        score += a.write ? 2 : share;
      else if (stride && stores_apart(a, *stride, target))
        score += 0.5;
      if (a.uses(*i) && !stride) score -= 0.5 * share;
    }
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

// The loops in the order in which the one operand lies, where what is written is far larger than the second
// level, by runs of whole lines: it is then read from front to back, and written as a few streams. In the
// output's order each run would be read from another page, which no prefetcher foresees. (Cascade Lake,
// [8,512,12,64] to [8,12,512,64]: 4.3 to 2.4 ms; Zen 4: 2.6 to 2.2, past the caches 2.0 to 0.9.) Empty: as
// they are.
std::vector<std::string> read_in_order(const BlockInfo& b, const Iter& lanes, const Target& target) {
  constexpr int64_t kStreams = 32, kLinesOfRun = 2, kBeyondL2 = 2;
  if (!b.output_is_param || b.accesses.size() != 2) return {};
  const Access &x = b.accesses[0], &y = b.accesses[1];
  const Access &in = x.write ? y : x, &out = x.write ? x : y;
  const int64_t bytes = bytes_of(b.output->type.dtype);
  if (in.write || !out.write || in.stride(lanes) != 1 || out.stride(lanes) != 1) return {};
  if (out.elements * bytes < kBeyondL2 * target.l2_bytes || lanes.extent * bytes < kLinesOfRun * kLine)
    return {};
  std::vector<const Iter*> order;
  for (const Iter* i : b.spatial()) {
    if (i == &lanes) continue;
    if (i->loop.empty() || !in.stride(*i) || !out.stride(*i)) return {};
    if (i->extent > 1) order.push_back(i);
  }
  if (order.size() < 2) return {};
  const Iter* last_written = *std::min_element(
      order.begin(), order.end(), [&](auto* i, auto* j) { return *out.stride(*i) < *out.stride(*j); });
  std::stable_sort(order.begin(), order.end(),
                   [&](auto* i, auto* j) { return *in.stride(*i) > *in.stride(*j); });
  if (order.back()->extent > kStreams || last_written->extent <= kStreams) return {};
  std::vector<std::string> loops;
  for (const Iter* i : b.spatial())
    if (i != &lanes && i->extent == 1) loops.push_back(i->loop);
  for (const Iter* i : order) loops.push_back(i->loop);
  return loops;
}

// Short rows that are read so far apart that their lines meet in few sets of the first-level cache go by
// tiles of rows in the output's order: all of a tile's lines stay while the next dimension passes. Gives the
// order of loops but for `lanes`; empty where rows aren't such. (Zen 5, 16 lanes: [204,64,16] turned to
// [64,204,16] 44 to 15 us, [256,256,16] 104 to 86, 4 lanes, [128,128,4] 17.9 to 4.2, by AVX2 alike; rows of
// 256 bytes, and [300,60,16], whose rows don't meet, none. Of twice as much as 4 MB [2048,64,16] 440 to 390,
// but [512,256,16] 250 to 380.)
std::vector<std::string> tile_rows(Schedule& s, const BlockInfo& b, const Iter& lanes, const Target& target) {
  constexpr int64_t kShortRow = 2, kTile = 8, kLeastTiles = 3, kStays = 4;  // lines, rows
  const int64_t bytes = bytes_of(b.output->type.dtype), row_bytes = lanes.extent * bytes;
  std::vector<LoopInfo> loops = loops_of(s.func(), b.name);
  if (b.accesses.size() != 2 || loops.size() < 3 || row_bytes > kShortRow * kLine ||
      kTile * row_bytes % kLine != 0 || loops.back().name != lanes.loop)
    return {};
  const Access& read = b.accesses[b.accesses[0].write ? 1 : 0];
  const auto pitch_of = [&](const std::string& loop) {  // of what is read; 0: there is none
    const Iter* i = b.iter(loop);
    return i ? std::abs(read.stride(*i).value_or(0)) * bytes : 0;
  };
  loops.pop_back();
  const LoopInfo row = loops.back();
  loops.pop_back();
  const auto next = std::min_element(loops.begin(), loops.end(), [&](const LoopInfo& x, const LoopInfo& y) {
    return std::tuple(x.extent < 2, pitch_of(x.name)) < std::tuple(y.extent < 2, pitch_of(y.name));
  });
  const std::string column = next->name;
  const int64_t pitch = pitch_of(row.name), inside = pitch_of(column);
  if (read.write || read.stride(lanes) != 1 || write_of(b)->stride(lanes) != 1 ||
      row.extent < kLeastTiles * kTile || next->extent < 2 || inside == 0 || inside >= pitch ||
      !meet_in_l1(pitch, target) || row.extent * next->extent * row_bytes > kStays * target.l2_bytes)
    return {};
  s.because(
      fmt::format("rows of {} bytes, {} apart, cause set conflicts in L1: only as many at a time as stay "
                  "there for all of {}",
                  row_bytes, pitch, column));
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]{3}", row.name, b.name, kTile,
                row.extent % kTile ? " tail=peel" : ""));
  std::vector<std::string> order;
  for (const LoopInfo& l : loops)
    if (l.name != column) order.push_back(l.name);
  order.insert(order.end(), {row.name + "0", column, row.name + "1"});
  return order;
}

// Whether a table of i32, the same for all rows, says where along the lanes elements are read: one of which
// gathers find out that the places are close together (src/codegen/llvm_gather.cpp).
bool reads_by_table(const BlockInfo& b, const Iter& lanes) {
  const auto by_table = [&](const Expr& index) {
    const auto* cast = index.as<Cast>();
    const auto* load = cast ? cast->a.as<Load>() : nullptr;
    const auto* place = load && load->indices.size() == 1 ? load->indices[0].as<VarRef>() : nullptr;
    return place && place->var == lanes.var && cast->a.dtype() == DType::i32;
  };
  return std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return std::any_of(a.indices.begin(), a.indices.end(), by_table);
  });
}

// The iterator along which the block writes, where it reads by such a table; else null.
const Iter* lanes_by_table(const BlockInfo& b) {
  for (const Iter* i : b.spatial())
    if (!i->loop.empty() && i->extent > 1 && write_of(b)->stride(*i) == 1 && reads_by_table(b, *i)) return i;
  return nullptr;
}

// Such a table is looked at once for some rows: a vector of each, then the next vector. Gives the order of
// loops but for the vector's; empty where there is only one row. (Zen 5, an image of 64 channels resized to
// 112 x 112, nearest: 150 to 50 us, with four vectors 60. All rows of 512 x 512 would be in few sets of the
// first-level cache: five times as long.)
std::vector<std::string> rows_first(Schedule& s, const BlockInfo& b) {
  constexpr int64_t kRows = 16;
  std::vector<std::string> order;
  for (const LoopInfo& l : loops_of(s.func(), b.name)) order.push_back(l.name);
  order.pop_back();
  if (order.size() < 2) return {};
  const std::string tiles = order.back(), rows = order[order.size() - 2];
  order.resize(order.size() - 2);
  if (extent_of(s, b.name, rows) <= kRows) {
    order.insert(order.end(), {tiles, rows});
    return order;
  }
  s.because(fmt::format("a table says where they are read: {} rows at a time", kRows));
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=mask", rows, b.name, kRows));
  order.insert(order.end(), {rows + "0", tiles, rows + "1"});
  return order;
}

// After how many iterations what is read begins anew, where its index is `i % n` and whole periods are
// written; 0 where it doesn't, or not everywhere alike, or where periods fill a vector: one shuffle then
// serves all of them (bytes by twos, 500 times: a tenth of the time that periods take).
int64_t period_of(const BlockInfo& b, const Iter& i, const Target& target) {
  const int64_t vector = lanes_of(b, target);
  if (i.extent <= kVectors * vector) return 0;
  int64_t period = 0;
  for (const Access& a : b.accesses)
    for (const Expr& index : a.indices) {
      const auto* m = index.as<Binary>();
      if (!uses_var(index, i.var) || !m || m->op != BinaryOp::mod) continue;
      const auto* v = m->a.as<VarRef>();
      const int64_t n = as_int(m->b).value_or(0);
      if (!v || n < 2 || i.extent <= n || i.extent % n != 0 || (period && n != period)) return 0;
      if (vector % n == 0) return 0;
      period = n;
    }
  return period;
}

// Vectors of a tile. An access along the lanes to places that other elements say is a load for each lane: so
// many of them are in flight where several are.
int64_t vectors_of(const BlockInfo& b, const Iter& lanes) {
  const auto picks = [&](const Access& a) {
    bool found = false;
    for (const Expr& index : a.indices)
      for_each_expr(index, [&](const Expr& e) { found = found || (e.as<Load>() && uses_var(e, lanes.var)); });
    return found;
  };
  const int64_t picked = std::count_if(b.accesses.begin(), b.accesses.end(), picks);
  return std::max<int64_t>(1, kVectors / std::max<int64_t>(1, picked));
}

}  // namespace

int64_t extent_of(const Schedule& s, const std::string& block, const std::string& loop) {
  for (const LoopInfo& l : loops_of(s.func(), block))
    if (l.name == loop) return l.extent;
  return -1;
}

std::string sample_size(Schedule& s, const std::string& name, std::vector<int64_t> sizes, int64_t size,
                        int64_t extent) {
  sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [&](int64_t n) { return n >= extent; }),
              sizes.end());
  s(fmt::format("{} = sample_choice [{}] -> {}", name, fmt::join(sizes, ", "), size));
  return name;
}

bool wants_streaming(const BlockInfo& b, const Iter& lanes, int64_t width, int64_t least) {
  const Access& out = *write_of(b);
  int64_t bytes = bytes_of(b.output->type.dtype);
  if (out.stride(lanes) != 1 || !b.output_is_param) return false;
  for (const Iter& i : b.iters) {
    bytes *= i.extent;
    if (&i != &lanes && i.var != lanes.var && i.extent > 1 && out.stride(i).value_or(1) % width != 0)
      return false;
  }
  return bytes >= least;
}

int64_t streaming_size(const Target& target) {
  constexpr int64_t kLeast = 16 << 20, kMost = 48 << 20;  // a large last level is shared by many cores
  return std::clamp(target.l3_bytes / 2, kLeast, kMost);
}

int64_t moved_streaming_size(const Target& target) {
  return streaming_size(target) / (target.cores > 1 && !target.far_l3() ? 1 : 2);
}

void spread_map(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  // Lanes are divided one by one, so a table's vectors would be much code for no time.
  if (b.iters.size() == 1 && !b.output_is_param && is_table(s.func(), b)) return;
  const Iter* by_table = lanes_by_table(b);
  if (!by_table && turn_map(s, block, target)) return;
  const Iter* lanes_iter = by_table ? by_table : choose_lanes(b, target);
  std::string lanes;
  bool ahead = false;
  if (lanes_iter) {
    lanes = lanes_iter->loop;
    const int64_t vectors = by_table ? 1 : vectors_of(b, *lanes_iter);
    const int64_t width = vectors * lanes_of(b, target), period = period_of(b, *lanes_iter, target);
    if (period) {
      s.because(fmt::format("the input restarts after {}: tiles end there", period));
      s(fmt::format("{0}r {0}p = split {1}.{0} [_, {2}]", lanes, block, period));
      lanes += "p";
    }
    const int64_t extent = period ? period : lanes_iter->extent;
    if (extent > width) {
      const int64_t n = lanes_of(b, target);
      s.because(fmt::format("{} vector{} of {} in flight", vectors, vectors > 1 ? "s" : "", n));
      const std::string size =
          sample_size(s, lanes + "_width", {n, 2 * n, 4 * n, 8 * n, 16 * n}, width, extent);
      s(fmt::format("{}_tail = sample_choice [peel, mask] -> peel", lanes));
      split_at_lines(s, fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail={0}_tail", lanes, block, size),
                     period || !target.far_l3() ? "" : at_lines(b, lanes, width, target));
      lanes += "1";
    }
    std::vector<std::string> first = read_in_order(b, *lanes_iter, target);
    const bool foreseen = !first.empty();
    if (!foreseen) first = tile_rows(s, b, *lanes_iter, target);
    if (first.empty() && by_table && extent > width) first = rows_first(s, b);
    std::string order;
    for (const std::string& l : first) order += l + " ";
    for (const LoopInfo& l : loops_of(s.func(), block))
      if (l.name != lanes && std::find(first.begin(), first.end(), l.name) == first.end())
        order += l.name + " ";
    if (foreseen) s.because("reads are in order, which the hardware prefetcher covers");
    if (!order.empty()) s(fmt::format("reorder {} ({}{})", block, order, lanes));
    s.because(fmt::format("most accesses are contiguous along {}", lanes_iter->loop));
    s(fmt::format("vectorize {}.{}", block, lanes));
    ahead = asks_for_output(b, *lanes_iter, target);
    if (!period && (!ahead || target.cores >= cores_for_memory(target)) &&
        wants_streaming(b, *lanes_iter, lanes_of(b, target),
                        foreseen ? moved_streaming_size(target) : streaming_size(target))) {
      ahead = false;
      s.because(
          fmt::format("the output doesn't fit in the caches ({} KiB at the last level): non-temporal stores",
                      target.l3_bytes / 1024));
      s(fmt::format("annotate {} streaming=1", block));
    }
  }
  std::vector<std::string> outer;
  for (const LoopInfo& l : loops_of(s.func(), block))
    if (l.name != lanes) outer.push_back(l.name);
  if (!share_with_reader(s, block, target)) share_loops(s, block, outer, work_of(b, target), target);
  if (lanes_iter) prefetch_gathered(s, b, *lanes_iter, lanes, target);
  if (ahead) prefetch_map(s, b, lanes, target);
}

}  // namespace nestor::library
