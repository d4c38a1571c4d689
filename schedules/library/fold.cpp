// Reductions that look at each element once: sums, maxima, norms along some axes. Memory is what binds them,
// so elements are read in the order in which they lie. It depends on whether the dimension that lies dense is
// folded or stays.
//
//  - It stays: sums of columns. A few rows at a time are added to a panel of results that stays in the
//  first-level cache:
//      others | panels | outer R | rows | column tiles | 8 rows (unrolled) | lanes (vectorized)
//    Each result takes its elements in the old order. What comes from behind the second-level cache is read
//    as the machine foresees it, whole rows one by one, where a row of results stays in the first level
//    beside it; else 4 rows at a time, in panels of a quarter of the second level:
//      others | R | column tiles | lanes        others | panels | R | column tiles | 4 rows | lanes
//    (Zen 4: 20000x500 4.2 to 2.0 ms, 8192x2048 5.6 to 3.7, 1000x1000 0.41 to 0.23, 64x256x256 along its
//    middle 2.2 to 1.2; 2000x8192, of 4 rows, 4.5 to 3.6.) Where threads share the columns no row is read
//    whole, and 8 at a time are faster (two threads, 20000x500 by one row 1.5 to 2 times as long). So they
//    are where a load takes a whole line and the third level is near, in panels of a quarter of the second
//    level (Zen 5: 3000x3000 1.1 to 0.57 ms, 4000x2000 0.63 to 0.41, 64x256x256 0.19 to 0.155, 4096x4096 1.40
//    to 1.34).
//  - It is folded and long: lanes keep partial results along each row, several vectors of them side by side.
//  - It is folded and short: a fold of the lanes for each row would cost more than the row. The lanes of 16
//    rows are folded together (fold_rows of the passes): 45 operations, where turning 16 x 16 elements takes
//    64 shuffles. Of rows shorter than half a vector lanes go across the rows, whose elements are turned in
//    registers (transpose_tiles). The results stay in registers meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kShortRow = 64;  // elements: below, lanes go across rows
constexpr int64_t kPanelBytes =
    8 << 10;  // of results, beside the rows that stream through the first-level cache
constexpr int64_t kRowsAtOnce = 8, kFarRowsAtOnce = 4;
constexpr int64_t kFar = 2;  // second-level caches: 4000x128, 2 MB, takes as long by one row as by 8
constexpr int64_t kUnrolledRow = 16;

// Whether the iterators that move an index are its digits, so that no value of it comes twice: k0*100 + k1
// with k1 below 100, of which the last is as long as a row.
bool has_digits(const Expr& index, const BlockInfo& b) {
  const auto affine = as_affine(index);
  if (!affine) return false;
  std::vector<std::pair<int64_t, int64_t>> digits;  // weight, extent
  for (const Iter& i : b.iters)
    if (i.extent > 1 && uses_var(index, i.var)) digits.emplace_back(coefficient(*affine, i.var), i.extent);
  std::sort(digits.begin(), digits.end());
  for (size_t d = 1; d < digits.size(); ++d)
    if (digits[d].first < digits[d - 1].first * digits[d - 1].second) return false;
  return digits.size() < 2 || (digits[0].first > 0 && digits[0].second >= kShortRow);
}

// Every read moves with every iterator, and no element is read twice.
bool reads_once(const BlockInfo& b) {
  bool reads = false;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    reads = true;
    for (const Iter& i : b.iters)
      if (i.extent > 1 && (i.loop.empty() || !a.uses(i) || !a.stride(i))) return false;
    for (const Expr& e : a.indices)
      if (!has_digits(e, b)) return false;
  }
  return reads;
}

// The iterator along which all reads lie dense; null if there is none.
const Iter* dense_in(const BlockInfo& b) {
  for (const Iter& i : b.iters) {
    if (i.extent < 2) continue;
    bool dense = true;
    for (const Access& a : b.accesses) dense = dense && (a.write || a.stride(i) == 1);
    if (dense) return &i;
  }
  return nullptr;
}

std::vector<std::string> names(const std::vector<const Iter*>& iters, const Iter* without = nullptr) {
  std::vector<std::string> out;
  for (const Iter* i : iters)
    if (i != without && !i->loop.empty()) out.push_back(i->loop);
  return out;
}

struct Fold {
  Schedule& s;
  const BlockInfo& b;
  const std::string& block;
  const std::string& epilogue;
  const Target& target;
  int64_t lanes;

  // Some of the loops `outer`, or of the loop `tiles` inside of them.
  void parallel(std::vector<std::string> outer, const std::string& tiles) const {
    if (!tiles.empty()) outer.push_back(tiles);
    share_loops(s, block, outer, work_of(b, target), target);
  }

  // The epilogue's loop inside `loop`, vectorized where it is long.
  void finish_at(const std::string& loop) const {
    if (epilogue.empty() || loop.empty()) return;
    std::vector<std::string> inside;
    for (const Iter& i : analyze(s.func(), epilogue).iters) inside.push_back("w" + i.loop);
    s(fmt::format("{} = reverse_compute_at {} {}.{}", join(inside), epilogue, block, loop));
    vectorize_inside(s, epilogue, target);
    stream_rows(s, analyze(s.func(), epilogue), written_past_caches(), target);
  }

  // From so many bytes on: threads fill a near last level first. (Zen 5, RMS norms of 2400 and 5500 rows of
  // 1760 and 768, 17 MB, by one thread 0.57 to 0.41 ms, by two 0.27 to 0.39; 4000 of 1760, 28 MB, 1.25
  // to 1.14 and 0.86 to 0.80.)
  int64_t written_past_caches() const {
    const bool shared = target.cores > 1 && !target.far_l3();
    return std::max(streaming_size(target), shared ? target.l3_bytes * 3 / 4 : 0);
  }

  // How rows are read: `at_once` of them for each result that is read and written, `held` bytes of results at
  // a time.
  struct Rows {
    int64_t at_once = kRowsAtOnce, held = kPanelBytes;
    bool in_l1 = true;  // where results are held
    bool one_by_one() const { return at_once == 1; }
  };
  Rows rows_of_columns(const Iter& d, const Access& read, bool alone) const {
    const int64_t row = d.extent * bytes_of(b.output->type.dtype);
    const bool far = read.elements * bytes_of(read.buffer->type.dtype) > kFar * target.l2_bytes;
    const bool whole = row <= target.l1_bytes / 4, shared = alone && target.cores > 1;
    if (!far || (whole && shared)) return {};
    if (!target.far_l3() && vectors_are_lines(target)) return Rows{kRowsAtOnce, target.l2_bytes / 4, false};
    return whole ? Rows{1, row, true} : Rows{kFarRowsAtOnce, target.l2_bytes / 4, false};
  }

  struct Columns {
    std::string panels, tiles, lanes;  // loops, from outside; empty: there is none
  };
  Columns cut_columns(const Iter& d, const Rows& rows, bool alone) const {
    const int64_t width = 4 * lanes, bytes = bytes_of(b.output->type.dtype);
    if (d.extent <= width) return {"", "", d.loop};
    s.because(fmt::format("4 vectors of {} in flight", lanes));
    const std::string size =
        sample_size(s, d.loop + "_width", {lanes, 2 * lanes, 4 * lanes, 8 * lanes}, width, d.extent);
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", d.loop, block, size));
    const int64_t count = ceil_div(d.extent, width);
    int64_t panel = std::max<int64_t>(1, ceil_div(rows.held / bytes, width));
    if (alone) panel = std::min(panel, ceil_div(count, target.cores));
    if (count <= panel) return {"", d.loop + "0", d.loop + "1"};
    s.because(fmt::format("{} results stay in the {}-level cache while all rows are read", panel * width,
                          rows.in_l1 ? "first" : "second"));
    s(fmt::format("{0}p {0}t = split {1}.{0}0 [_, {2}]", d.loop, block, panel));
    return {d.loop + "p", d.loop + "t", d.loop + "1"};
  }

  void columns(const Iter& d) const {
    std::vector<const Iter*> reduced = b.reduced();
    const Access& read =
        *std::find_if(b.accesses.begin(), b.accesses.end(), [](const Access& a) { return !a.write; });
    std::stable_sort(reduced.begin(), reduced.end(),
                     [&](const Iter* x, const Iter* y) { return *read.stride(*x) > *read.stride(*y); });
    const std::vector<std::string> others = names(b.spatial(), &d);
    const Rows rows = rows_of_columns(d, read, others.empty());
    const Columns cut = cut_columns(d, rows, others.empty());
    std::vector<std::string> order = others;
    if (!cut.panels.empty()) order.push_back(cut.panels);
    std::string first = reduced.front()->loop, last = reduced.back()->loop;
    for (const Iter* r : reduced)
      if (r != reduced.back()) order.push_back(r->loop);
    if (!rows.one_by_one() && reduced.back()->extent > rows.at_once) {
      s.because(fmt::format("each result is read and written once per {} rows", rows.at_once));
      const std::string size = sample_size(s, last + "_rows", {2, 4, kRowsAtOnce, 2 * kRowsAtOnce},
                                           rows.at_once, reduced.back()->extent);
      s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", last, block, size));
      order.push_back(last + "0");
      if (first == last) first = last + "0";
      last += "1";
    }
    const std::vector<std::string> inside =
        rows.one_by_one() ? std::vector{last, cut.tiles, cut.lanes} : std::vector{cut.tiles, last, cut.lanes};
    for (const std::string& l : inside)
      if (!l.empty()) order.push_back(l);
    if (rows.one_by_one()) s.because("rows are read one after another, which the hardware prefetcher covers");
    s(fmt::format("reorder {} ({})", block, join(order)));
    finish_at(!cut.panels.empty() ? cut.panels : others.empty() ? "" : others.back());
    const bool tiles_first = !rows.one_by_one() && first == last && !cut.tiles.empty();
    s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, tiles_first ? cut.tiles : first));
    if (!rows.one_by_one()) s(fmt::format("unroll {}.{}", block, last));
    s(fmt::format("vectorize {}.{}", block, cut.lanes));
    vectorize_inside(s, block + "_init", target);
    parallel(others, cut.panels);
    if (!epilogue.empty() && cut.panels.empty() && others.empty()) spread_map(s, epilogue, target);
  }

  // What the third level doesn't hold. Where a line is two passes, chains that wait for memory side by side
  // outrun what the machine foresees. (Zen 4, one chain for 8: 4096x4096 2.7 to 2.1 ms, 10000000 1.74
  // to 1.27, 3000x3500 1.8 to 1.5, 100000x200 3.6 to 3.4; 3000x2500, which the third level holds, 0.86
  // to 1.28.)
  bool comes_from_memory() const {
    int64_t bytes = 0;
    for (const Access& a : b.accesses)
      if (!a.write) bytes += a.elements * bytes_of(a.buffer->type.dtype);
    return target.double_pumped && !has_short_vectors(target) && bytes > target.l3_bytes;
  }

  void long_rows(const Iter& d) const {
    const std::vector<std::string> rows = names(b.spatial());
    std::vector<std::string> order = rows;
    const std::vector<std::string> reduced = names(b.reduced(), &d);
    order.insert(order.end(), reduced.begin(), reduced.end());
    order.push_back(d.loop);
    if (order.size() > 1) s(fmt::format("reorder {} ({})", block, join(order)));
    finish_at(rows.empty() ? "" : rows.back());
    s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block,
                  reduced.empty() ? d.loop : reduced.front()));
    s(fmt::format("vectorize {}.{}", block, d.loop));
    if (comes_from_memory()) {
      s.because("memory is slower than the additions: one chain of sums is enough");
      s(fmt::format("annotate {}.{} chains=1", block, d.loop));
    }
    parallel(rows, "");
  }

  // Rows shorter than a vector that are read under masks aren't foreseen by the machine (Zen 5, data in the
  // last cache: means of 12 took 1.4 times as long as with what the next tile reads asked for, of 5 and 9 1.5
  // times; rows of whole vectors take up to 1.3 times as long with it). By halves they are (Zen 4, without
  // it: means of 12 12 % less time, of 5 2 %, and 25 % where they come from memory).
  void prefetch_parts(const Iter& d, const std::string& tiles) const {
    if (target.double_pumped || d.extent >= lanes || d.extent <= kInterleaved ||
        std::has_single_bit(static_cast<uint64_t>(d.extent)))
      return;
    for (const Access& a : b.accesses)
      if (!a.write && a.elements * bytes_of(a.buffer->type.dtype) > target.l1_bytes) {
        s.because("the hardware prefetcher doesn't cover masked loads");
        s.try_step(fmt::format("prefetch {}.{} {} distance=2", block, tiles, a.buffer->name));
      }
  }

  // False where the results don't lie dense along any iterator.
  bool short_rows(const Iter& d) const {
    const Iter* across = nullptr;
    for (const Iter* i : b.spatial())
      for (const Access& a : b.accesses)
        if (a.write && a.stride(*i) == 1 && i->extent >= lanes) across = i;
    if (!across) return false;
    const std::string writer = accumulate_locally(s, b, epilogue);
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", across->loop, block, lanes));
    const std::vector<std::string> others = names(b.spatial(), across), reduced = names(b.reduced(), &d);
    std::vector<std::string> order = others;
    order.push_back(across->loop + "0");
    order.insert(order.end(), reduced.begin(), reduced.end());
    std::string elements = d.loop, first = reduced.empty() ? d.loop : reduced.front();
    const bool folds = folds_rows_together(b, target);
    if (!folds && d.extent > kUnrolledRow) {
      s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", elements, block, kUnrolledRow));
      order.push_back(elements + "0");
      if (first == elements) first += "0";
      elements += "1";
    }
    const std::string rows = across->loop + "1";
    if (folds)
      order.insert(order.end(), {rows, elements});
    else
      order.insert(order.end(), {elements, rows});
    s(fmt::format("reorder {} ({})", block, join(order)));
    std::vector<std::string> written;
    for (const Iter& i : analyze(s.func(), writer).iters) written.push_back("w" + i.loop);
    s(fmt::format("{} = reverse_compute_at {} {}.{}0", join(written), writer, block, across->loop));
    s(fmt::format("vectorize {}.w{}", writer, across->loop));
    if (folds) {
      s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, reduced.empty() ? rows : first));
      s(fmt::format("vectorize {}_init.{}", block, rows));
      s(fmt::format("vectorize {}.{}", block, elements));
      s.because(fmt::format("the lanes of {} rows are reduced together", lanes));
      s(fmt::format("vectorize {}.{}", block, rows));
    } else {
      s(fmt::format("unroll {}.{}", block, elements));
      s(fmt::format("vectorize {}.{}", block, rows));
      s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, first));
    }
    prefetch_parts(d, across->loop + "0");
    parallel(others, across->loop + "0");
    return true;
  }
};

}  // namespace

bool folds_rows_together(const BlockInfo& b, const Target& target) {
  const Iter* d = dense_in(b);
  return d && reads_once(b) && d->reduce && d->extent < kShortRow && 2 * d->extent > lanes_of(b, target);
}

std::optional<int64_t> pieces_to_fold(const BlockInfo& b, const Target& target) {
  const Iter* d = dense_in(b);
  if (!d || !reads_once(b)) return std::nullopt;
  int64_t pieces = 1;
  for (const Iter* i : b.spatial())
    pieces *=
        i != d && d->extent < kShortRow && d->reduce ? ceil_div(i->extent, lanes_of(b, target)) : i->extent;
  return d->reduce ? pieces : ceil_div(pieces, 4 * lanes_of(b, target));
}

bool fold_once(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const Iter* d = dense_in(b);
  if (!d || !reads_once(b)) return false;
  const Fold fold{s, b, block, epilogue, target, lanes_of(b, target)};
  const Schedule before = s;
  if (d->reduce) {
    if (d->extent < kShortRow) {
      try {
        if (fold.short_rows(*d)) return true;
      } catch (const ScheduleError&) {
        s = before;
      }
    }
    fold.long_rows(*d);
    return true;
  }
  if (d->extent <= 4 * fold.lanes || b.reduction_size() < 2) return false;
  fold.columns(*d);
  return true;
}

}  // namespace nestor::library
