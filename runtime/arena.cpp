// Arena planning: offsets for buffers whose lifetimes are known, so that a model's temporaries share memory.
//
// Optimal packing is NP-hard. Largest first with best fit is what deployed runtimes use: on networks it is
// within a few percent of the lower bound (the largest sum of buffers alive at one step), since the big
// buffers decide and the small ones fill gaps. Quadratic in the number of buffers, which is at most some
// thousands.

#include <algorithm>
#include <numeric>

#include "nestor/error.h"
#include "nestor/runtime.h"

namespace nestor {

namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

ArenaLayout plan_arena(const std::vector<Lifetime>& lifetimes) {
  const size_t count = lifetimes.size();
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  ArenaLayout layout;
  layout.offsets.assign(count, 0);
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    NESTOR_CHECK(lifetimes[i].first <= lifetimes[i].last) << "buffer " << i << " ends before it begins";
    const int64_t size = align_up(lifetimes[i].bytes);
    if (size == 0) continue;
    int64_t best = -1, best_gap = 0, end = 0;  // end: of what lies below, as far as it is alive with i
    for (size_t p : placed) {
      if (!overlap_in_time(lifetimes[i], lifetimes[p])) continue;
      const int64_t gap = layout.offsets[p] - end;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, layout.offsets[p] + align_up(lifetimes[p].bytes));
    }
    layout.offsets[i] = best >= 0 ? best : end;
    layout.bytes = std::max(layout.bytes, layout.offsets[i] + size);
    auto at = std::upper_bound(placed.begin(), placed.end(), i,
                               [&](size_t a, size_t b) { return layout.offsets[a] < layout.offsets[b]; });
    placed.insert(at, i);
  }
  return layout;
}

}  // namespace nestor
