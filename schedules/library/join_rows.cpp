// Several reductions over the same rows: softmax, norms. The last block is the root. Its outer loops are the
// rows; all that comes before is computed row by row, so that a row is read from memory once and stays in the
// cache. Short rows go in groups of a few: while one's sum is folded to a number, on which all that follows
// waits, the others' are under way. A few rows that sum up what is the same for all of them (queries their
// keys and values) are worked at together.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "nestor/walk.h"
#include "schedules/library/next_rows.h"
#include "schedules/library/planner.h"
#include "schedules/library/product_chain.h"
#include "schedules/library/tile.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr int64_t kSteps = 8;      // of a reduction in one straight line
constexpr int64_t kGroup = 4;      // rows of a group, of short rows as many as a vector has lanes
constexpr int64_t kShortRow = 64;  // elements
// Rows up to so many vectors long fold their lanes together with others'; folding lanes of its own is a small
// part of a longer one's work, which is done before the next row needs registers.
constexpr int64_t kFoldedVectors = 2;
// From so many vectors on what a row's passes hand on waits in the output. In shorter rows the next pass
// meets stores still on their way, and a ragged end's can't be read before they are done: 1000 rows of 77
// would take 10 % more, of 197 4 % less, of 333 20 %.
constexpr int64_t kInPlaceVectors = 8;

}  // namespace

// The iterators of the root along which every reduction's result is one row's: those that index it.
std::vector<std::string> row_loops(const PrimFunc& f, const BlockInfo& root) {
  std::vector<std::string> rows;
  for (const Iter& i : root.iters) {
    bool indexes_all = true, any = false;
    for (const Access& a : root.accesses) {
      const std::vector<std::string> writers = writers_of(f, a.buffer);
      if (a.write || writers.empty() || !analyze(f, writers.front()).reduction) continue;
      any = true;
      indexes_all &= a.uses(i);
    }
    if (!i.loop.empty() && any && indexes_all) rows.push_back(i.loop);
  }
  return rows;
}

void vectorize_inside(Schedule& s, const std::string& block, const Target& target, int64_t vectors) {
  const BlockInfo b = analyze(s.func(), block);
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  if (loops.empty() || b.reduction) return;
  const LoopInfo last = loops.back();
  if (last.kind != ForKind::serial || last.extent < 2) return;
  const int64_t width = vectors * lanes_of(b, target);
  std::string lanes = last.name;
  if (last.extent > width) {
    if (!split_at_lines(
            s, fmt::format("{0}_t {0}_l = split {1}.{0} [_, {2}] tail=peel", last.name, block, width),
            at_lines(b, last.name, width, target)))
      return;
    lanes += "_l";
  }
  s.try_step(fmt::format("vectorize {}.{}", block, lanes));
}

bool sums_lanes(const Schedule& s, const std::string& block) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  if (loops.empty()) return false;
  const LoopInfo last = loops.back();
  const BlockInfo b = analyze(s.func(), block);
  const Iter* i = b.iter(last.name);
  if (!i || !i->reduce || last.extent < 8) return false;
  for (const Access& a : b.accesses)
    if (!a.write && a.uses(*i) && a.stride(*i) != 1) return false;  // gathers cost more than they bring
  return true;
}

bool vectorize_reduction(Schedule& s, const std::string& block) {
  return sums_lanes(s, block) &&
         s.try_step(fmt::format("vectorize {}.{}", block, loops_of(s.func(), block).back().name));
}

// Of the reduction `b`, for one iteration of the loops `rows`, along iterators that are a loop's own.
int64_t results_a_row(const BlockInfo& b, const std::vector<std::string>& rows) {
  int64_t n = 1;
  for (const Iter* i : b.spatial())
    if (!i->loop.empty() && std::find(rows.begin(), rows.end(), i->loop) == rows.end()) n *= i->extent;
  return n;
}

// A reduction over what doesn't lie dense along it (probabilities times values, of one query): lanes across
// results that do, a few steps in one straight line, so that a result is read and written once for them. The
// loop `few`, if there is one, comes around these steps: its iterations read the same.
void vectorize_across(Schedule& s, const std::string& block, const std::string& few, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const std::vector<const Iter*> reduced = b.reduced();
  if (reduced.empty() || reduced.back()->loop.empty()) return;
  const int64_t n = lanes_of(b, target), width = 4 * n;
  const Iter* across = nullptr;
  for (const Iter* i : b.spatial()) {
    bool dense = !i->loop.empty() && i->extent >= n;
    for (const Access& a : b.accesses) dense = dense && (a.uses(*i) ? a.stride(*i) == 1 : !a.write);
    if (dense) across = i;
  }
  if (!across) return;
  Schedule tried = s;
  try {
    std::string lanes = across->loop, steps = reduced.back()->loop, order;
    if (reduced.back()->extent > kSteps) {
      tried.because(fmt::format("each result is read and written once per {} steps", kSteps));
      tried(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", steps, block, kSteps));
      order = steps + "0 ";
      steps += "1";
    }
    if (!few.empty()) order += few + " ";
    if (across->extent > width) {
      tried.because(fmt::format("4 vectors of {} in flight", n));
      tried(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", lanes, block, width));
      order += lanes + "0 ";
      lanes += "1";
    }
    tried(fmt::format("reorder {} ({}{} {})", block, order, steps, lanes));
    tried(fmt::format("unroll {}.{}", block, steps));
    tried(fmt::format("vectorize {}.{}", block, lanes));
    s = tried;
  } catch (const ScheduleError&) {  // as it was
  }
}

// A loop over a few rows that what `b` sums up doesn't all move with: the rest is read for all of them.
std::string few_rows(const BlockInfo& b) {
  for (const Iter* i : b.spatial()) {
    if (i->loop.empty() || i->extent < 2 || i->extent >= kFewestRows || b.reduced().empty()) continue;
    for (const Access& a : b.accesses)
      if (!a.write && !a.uses(*i)) return i->loop;
  }
  return "";
}

// The last of the loops `rows` stays inside of the blocks where it is of a few rows and some of them sum up
// what is the same for these, keys and values of a few queries: it comes once from where it lies. (Zen 5:
// 16 x 3 queries of 384 keys 65 % faster.)
bool shares_operands(const Schedule& s, const std::vector<std::string>& rows, const BlockInfo& root) {
  if (rows.size() < 2) return false;
  const int64_t extent = root.iter(rows.back())->extent;
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    const std::string few = name == root.name ? "" : few_rows(b);
    if (!few.empty() && b.iter(few)->extent == extent) return true;
  }
  return false;
}

// The loop `few` comes directly around the lanes that are summed up, in one straight line.
void share_lanes(Schedule& s, const std::string& block, const std::string& few) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  std::string between;
  bool inside = false;
  for (size_t k = 0; k + 1 < loops.size(); ++k) {
    if (inside) between += loops[k].name + " ";
    inside |= loops[k].name == few;
  }
  Schedule tried = s;
  tried.because("a few rows read the same data: it is read once for them");
  if ((between.empty() ||
       tried.try_step(fmt::format("reorder {} ({}{} {})", block, between, few, loops.back().name))) &&
      tried.try_step(fmt::format("unroll {}.{}", block, few)))
    s = tried;
}

// The vectors of a row that `rows` of a group take at a time: one where they share what they read, so that
// each row's mean and scale stay in registers beside it, if they do. (16 registers, Zen 3:
// LayerNormalization of rows of 768 by 4 vectors 10 % more time.)
int64_t vectors_at_once(const BlockInfo& root, int64_t rows, const Target& target) {
  constexpr int64_t kOfARow = 2, kOfAVector = 4;
  const int64_t free = target.vector_registers - kOfARow * rows;
  const bool one = free >= kOfAVector && free < kVectorsAtOnce * kOfAVector;
  return one && rows > 1 && reads_alike(root) ? 1 : kVectorsAtOnce;
}

// What all rows read alike, a norm's scale and shift, is loaded once for the `rows` of a group: they come
// inside the tiles of a row. Not where a load takes a whole line in half a cycle, and the third level is
// near: lines that follow each other are written sooner. (Zen 5: 64 x 1024 5.0 to 4.3 us, 200 x 256 3.7
// to 3.3, 128 x 333 3.9 to 3.6, 128 x 768 the same. Zen 4, a line in a cycle: 128 x 768 12.1 to 11.0, of 13
// sizes none slower.) Nor where much passes through a near third level, which others use as well. (Zen 4, 434
// wide: 14 MB a half less time, 8 MB 7 % less alone and 25 to 35 beside others, 432 and 448 wide 5 to 11 %
// more alone; 768 wide 49 MB 18 % less, 12 MB 3 more alone.)
void share_between_rows(Schedule& s, const std::string& root, const std::string& rows, const Target& target) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), root);
  const BlockInfo b = analyze(s.func(), root);
  constexpr int64_t kPart = 5;  // of the third level
  int64_t moved = 0;
  for (const Access& a : b.accesses) moved += a.elements * bytes_of(a.buffer->type.dtype);
  const bool in_order = !target.far_l3() && (vectors_are_lines(target) || kPart * moved > target.l3_bytes);
  if (!reads_alike(b) || loops.size() < 3 || in_order) return;
  const size_t n = loops.size();
  if (loops.back().kind != ForKind::vectorized || loops[n - 3].name != rows) return;
  Schedule tried = s;
  tried.because("all rows read the same data: it is loaded once per group of rows");
  if (tried.try_step(fmt::format("reorder {} ({} {})", root, loops[n - 2].name, rows)) &&
      tried.try_step(fmt::format("unroll {}.{}", root, rows)))
    s = tried;
}

bool stream_rows(Schedule& s, const BlockInfo& root, int64_t least, const Target& target) {
  const int64_t lanes = lanes_of(root, target);
  const std::vector<LoopInfo> loops = loops_of(s.func(), root.name);
  if (loops.empty() || loops.back().kind != ForKind::vectorized) return false;
  for (const Iter& i : root.iters)
    if (!root.reduction && write_of(root)->stride(i) == 1 && wants_streaming(root, i, lanes, least)) {
      s.because("the output doesn't fit in the caches: non-temporal stores");
      return s.try_step(fmt::format("annotate {} streaming=1", root.name));
    }
  return false;
}

void join_rows(Schedule& s, const Target& target) {
  std::vector<std::string> names = block_names(s.func());
  const BlockInfo root = analyze(s.func(), names.back());
  std::vector<std::string> rows = row_loops(s.func(), root);
  const bool together = shares_operands(s, rows, root);
  std::string grouped;            // the loop over a group's rows
  std::vector<Buffer> asked_for;  // its next rows
  int64_t group = 1;              // of so many
  int64_t length = 1;             // of a row
  Work work;
  for (const std::string& name : names) work = work + work_of(analyze(s.func(), name), target);
  if (!rows.empty()) {
    std::string order;
    for (const std::string& r : rows) order += r + " ";
    bool others = false;
    for (const Iter& i : root.iters)
      if (std::find(rows.begin(), rows.end(), i.loop) == rows.end()) {
        order += i.loop + " ";
        others = true;
      }
    if (others && root.iters.size() > 1) s(fmt::format("reorder {} ({})", root.name, order));
    int64_t bytes = 0, count_of_rows = 1;
    std::set<Buffer> touched;
    for (const std::string& r : rows) count_of_rows *= root.iter(r)->extent;
    for (const std::string& name : names) {
      const BlockInfo b = analyze(s.func(), name);
      length = std::max(length, b.instances() / count_of_rows);
      for (const Access& a : b.accesses)
        if (touched.insert(a.buffer).second)
          bytes += a.elements * bytes_of(a.buffer->type.dtype) / count_of_rows;
    }
    if (together) rows.pop_back();
    std::string& last = rows.back();
    const int64_t lanes = lanes_of(root, target);
    int64_t group_size = length <= kShortRow ? lanes : kGroup;
    if (const int64_t count = extent_of(s, root.name, last);
        !together && group_size * bytes <= target.l1_bytes && count >= 4 * group_size &&
        !go_alone(length, count_of_rows * bytes, lanes, target)) {
      if (target.far_l3()) asked_for = rows_to_ask_for(s.func(), root, rows, length, target);
      while (!asked_for.empty() && group_size > 2 && 3 * group_size * bytes > target.l1_bytes)
        group_size /= 2;
      s.because(fmt::format(
          "while the lanes of one row are reduced, {} others are computed: their {:.1f} KiB stay in L1",
          group_size - 1, static_cast<double>(group_size * bytes) / 1024));
      const std::string size =
          sample_size(s, last + "_rows", {2, kGroup, 2 * kGroup, 4 * kGroup}, group_size, count);
      s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", last, root.name, size));
      grouped = last + "1";
      group = group_size;
      last += "0";
    }
    for (size_t k = names.size() - 1; k-- > 0;)
      s.because(fmt::format("a row is read from memory once: its {} elements stay in the cache", length))(
          fmt::format("compute_at {} {}.{}", names[k], root.name, rows.back()));
    if (grouped.empty() && !together && waits_for_row(root, length, bytes, count_of_rows, target))
      asked_for = rows_to_ask_for(s.func(), root, rows, length, target);
  }
  if (grouped.empty() && !together)
    for (const std::string& name : names) sum_as_made(s, name, rows.empty() ? "" : rows.back(), target);
  const auto is_row = [&](const std::string& loop) {
    return std::find(rows.begin(), rows.end(), loop) != rows.end();
  };
  for (const std::string& name : names) {
    const BlockInfo b = analyze(s.func(), name);
    if (!b.reduction) {
      vectorize_inside(s, name, target,
                       name == root.name ? vectors_at_once(root, group, target) : kVectorsAtOnce);
      continue;
    }
    const bool several = results_a_row(b, rows) >= lanes_of(b, target);
    for (const LoopInfo& l : loops_of(s.func(), name)) {
      if (is_row(l.name)) continue;
      if (!s.try_step(fmt::format("{0}_init = decompose_reduction {0}.{1}", name, l.name))) continue;
      if (!is_row(loops_of(s.func(), name + "_init").back().name))
        vectorize_inside(s, name + "_init", target);
      break;
    }
    const std::string few = together ? few_rows(analyze(s.func(), name)) : "";
    if (!few.empty() && sums_lanes(s, name)) share_lanes(s, name, few);
    if (!vectorize_reduction(s, name)) {
      vectorize_across(s, name, few, target);
    } else if (!grouped.empty() && !several) {
      const std::vector<LoopInfo> loops = loops_of(s.func(), name);
      const LoopInfo &several_rows = loops[loops.size() - 2], &row = loops.back();
      if (row.extent <= kFoldedVectors * lanes_of(b, target) && !is_row(several_rows.name)) {
        s.because(fmt::format("the lanes of {} rows are reduced together", several_rows.extent));
        s.try_step(fmt::format("vectorize {}.{}", name, several_rows.name));
      }
    }
  }
  if (!grouped.empty()) share_between_rows(s, root.name, grouped, target);
  const bool kept = length >= kInPlaceVectors * lanes_of(root, target) && keep_in_output(s, root.name);
  const bool streaming = !kept && stream_rows(s, root, streaming_size(target), target);
  share_loops(s, root.name, rows, work, target);
  if (!grouped.empty())
    ask_for_rows(s, root.name, grouped, asked_for);
  else
    ask_for_row(s, root.name, length, streaming, asked_for, target);
}

}  // namespace nestor::library
