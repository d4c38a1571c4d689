// Reductions over windows of one input, pooling: each element is read by a few windows, and nothing is shared
// with another operand. Memory binds them, if the loads of a window's taps don't: so
//
//   other loops | outer window loops | tiles | taps (unrolled) | lanes (vectorized)
//
// with the results in registers. A padding is inlined: its border costs masks of a few lanes, a padded copy
// two passes over memory. With all taps in one straight line, neighbours that a stride skips are told apart
// from the same vectors (transpose_tiles).
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kMostTaps = 32;   // that are unrolled
constexpr int64_t kWidestStep = 4;  // between windows, in elements: beyond, lanes are gathered

// The only read of the block, if its indices slide: an S and an R iterator in one of them.
const Access* window_of(const BlockInfo& b) {
  const Access* read = nullptr;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    if (read) return nullptr;
    read = &a;
  }
  if (!read) return nullptr;
  bool slides = false;
  for (const Expr& e : read->indices) {
    bool spatial = false, reduce = false;
    for (const Iter& i : b.iters)
      if (i.extent > 1 && uses_var(e, i.var)) (i.reduce ? reduce : spatial) = true;
    slides = slides || (spatial && reduce);
  }
  return slides ? read : nullptr;
}

// A padding alone makes what the block reads, and only it reads that.
std::string padding_of(const PrimFunc& f, const Access& read) {
  const std::vector<std::string> writers = writers_of(f, read.buffer), readers = readers_of(f, read.buffer);
  if (writers.size() != 1 || readers.size() != 1) return "";
  const BlockInfo p = analyze(f, writers.front());
  return p.reduction || p.has_math || !p.has_select || p.accesses.size() != 2 ? "" : p.name;
}

// Lines of an image that come from memory, where windows that overlap pass by more than one line: some way
// ahead, since the hardware doesn't foresee them all. (Zen 5, 3x3/2 of 128 images of 512x512 12.4 to 4.3 ms,
// of 512 of 224x224 4.0 to 3.0; windows that pass line by line, or don't overlap, gain nothing.)
void ask_for_rows(Schedule& s, const BlockInfo& b, const Access& read, const Iter& y, const Target& target) {
  constexpr int64_t kAhead = 6 << 10;  // bytes
  const int64_t element = bytes_of(read.buffer->type.dtype);
  if (read.elements * element <= target.l3_bytes) return;
  const int64_t moved = read.stride(y).value_or(0);
  for (const Iter& tap : b.iters) {
    if (!tap.reduce || !read.slides_along(tap, y)) continue;
    const int64_t line = read.stride(tap).value_or(0);
    if (line <= 0 || moved < 2 * line || tap.extent * line <= moved) continue;
    const BlockInfo now = analyze(s.func(), b.name);  // a padding is inlined
    const auto input = std::find_if(now.accesses.begin(), now.accesses.end(),
                                    [&](const Access& a) { return !a.write && a.buffer != now.output; });
    if (input == now.accesses.end()) return;
    s.because("the next lines come from memory");
    s.try_step(fmt::format("prefetch {}.{} {} distance={}", b.name, y.loop, input->buffer->name,
                           std::max<int64_t>(1, kAhead / (moved * element))));
    return;
  }
}

}  // namespace

bool fold_windows(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const Access* read = window_of(b);
  if (!read) return false;
  const Access& out =
      *std::find_if(b.accesses.begin(), b.accesses.end(), [](const Access& a) { return a.write; });
  const Iter* x = nullptr;
  std::vector<std::string> outer, order;
  int64_t taps = 1;
  for (const Iter& i : b.iters) {
    if (i.loop.empty()) return false;
    const int64_t step = read->stride(i).value_or(0);
    if (!i.reduce && out.stride(i) == 1 && step >= 1 && step <= kWidestStep) x = &i;
  }
  if (!x) return false;
  for (const Iter* i : b.spatial())
    if (i != x) outer.push_back(i->loop);
  const std::string padding = padding_of(s.func(), *read);
  if (!padding.empty()) s("compute_inline " + padding);

  const std::string writer = accumulate_locally(s, b, epilogue);
  std::string lanes = x->loop;
  order = outer;
  const int64_t width = 4 * lanes_of(b, target);
  if (x->extent > width) {
    const int64_t n = lanes_of(b, target);
    s.because(fmt::format("4 vectors of {} in flight", n));
    const std::string size = sample_size(s, lanes + "_width", {n, 2 * n, 4 * n}, width, x->extent);
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", lanes, block, size));
    order.push_back(lanes + "0");
    lanes += "1";
  }
  const std::string innermost = order.empty() ? "" : order.back();
  std::vector<std::string> unrolled;
  const std::vector<const Iter*> reduced = b.reduced();
  for (size_t k = reduced.size(); k-- > 0;)  // from the inside
    if ((taps *= reduced[k]->extent) <= kMostTaps) unrolled.push_back(reduced[k]->loop);
  for (const Iter* i : reduced) order.push_back(i->loop);
  order.push_back(lanes);
  if (order.size() > 1) s(fmt::format("reorder {} ({})", block, join(order)));
  std::string write_lanes = x->loop;
  for (const Access& a : analyze(s.func(), writer).accesses)
    if (a.write)
      for (const Iter& i : analyze(s.func(), writer).iters)
        if (i.extent > 1 && a.stride(i) == 1) write_lanes = i.loop;
  if (!innermost.empty()) {
    std::vector<std::string> written;
    for (const Iter& i : analyze(s.func(), writer).iters) written.push_back("w" + i.loop);
    s(fmt::format("{} = reverse_compute_at {} {}.{}", join(written), writer, block, innermost));
    write_lanes = "w" + write_lanes;
  }
  s(fmt::format("vectorize {}.{}", block, lanes));
  s(fmt::format("vectorize {}.{}", writer, write_lanes));
  for (const std::string& l : unrolled)
    s.because(fmt::format("up to {} kernel elements are unrolled", kMostTaps))(
        fmt::format("unroll {}.{}", block, l));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, reduced.front()->loop));
  // Between the borders no row of a window is asked whether it is there.
  for (const Iter* i : b.spatial())
    if (i != x && !padding.empty() && i->loop == outer.back() && outer.size() > 1)
      s(fmt::format("annotate {}.{} peel=1", block, i->loop));
  if (!outer.empty()) ask_for_rows(s, b, *read, *b.iter(outer.back()), target);
  if (!padding.empty() && outer.size() > 1) outer.pop_back();  // peeled: it stays a loop of its own
  share_loops(s, block, outer, work_of(b, target), target);
  return true;
}

}  // namespace nestor::library
