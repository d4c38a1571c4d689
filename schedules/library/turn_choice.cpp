#include "schedules/library/turn_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "nestor/walk.h"
#include "schedules/library/tile.h"
#include "schedules/library/tile_results.h"
#include "schedules/library/turn_size.h"

namespace nestor::library {

namespace {

bool turns(const Access& a, const Iter& l, const Iter& r) {
  return a.uses(l) && a.stride(l).value_or(0) > 1 && a.stride(r) == 1 &&
         (r.extent > 2 || leaves_no_gaps(a, l, r));
}

// Another iterator than r along which what is written can be told apart from whole vectors, where it lies
// dense along neither l nor r; null where there is none.
const Iter* interleaved_in_output(const BlockInfo& b, const Iter& l, const Iter& r) {
  const Access& out = *write_of(b);
  for (const Iter* i : b.spatial())
    if (i != &l && i != &r && !i->loop.empty() && i->extent > 1 && out.stride(*i) == 1 &&
        leaves_no_gaps(out, l, *i))
      return i;
  return nullptr;
}

// Of one vector along l, in the time of a load. r and q may be null.
double cost_of_access(const Access& a, const Iter& l, const Iter* r, const Iter* q, int64_t lanes,
                      int64_t side) {
  const auto n = static_cast<double>(lanes);
  if (!a.uses(l)) return 0.25;
  if (a.stride(l) == 1) return 1;
  if (q && a.write) return static_cast<double>(q->extent);
  if (!r || !turns(a, l, *r)) return n + 4;
  if (leaves_no_gaps(a, l, *r)) return static_cast<double>(r->extent);
  const auto columns = static_cast<double>(std::min(r->extent, side));
  const auto width = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(columns)));
  return (n + width * std::log2(width)) / columns;
}

// The accesses without those of the same element again.
std::vector<const Access*> different_accesses(const BlockInfo& b) {
  std::vector<const Access*> out;
  for (const Access& a : b.accesses) {
    const auto same = [&](const Access* o) {
      return o->buffer == a.buffer && o->write == a.write &&
             std::ranges::equal(o->indices, a.indices,
                                [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
    };
    if (std::ranges::none_of(out, same)) out.push_back(&a);
  }
  return out;
}

}  // namespace

bool leaves_no_gaps(const Access& a, const Iter& l, const Iter& r) {
  return r.extent <= kInterleaved && a.stride(l) == r.extent;
}

Turn choose_turn(const BlockInfo& b, const Target& target) {
  Turn best;
  double least = HUGE_VAL;
  const int64_t lanes = std::min(lanes_of(b, target), side_of(b));
  const auto pitch = [&](const Iter& i) { return write_of(b)->stride(i).value_or(INT64_MAX); };
  const std::vector<const Access*> accesses = different_accesses(b);
  std::vector<const Iter*> rows = {nullptr};
  for (const Iter* r : b.spatial()) rows.push_back(r);
  for (const Iter* r : rows)
    for (const Iter* l : b.spatial()) {
      if (l == r || l->loop.empty() || l->extent < 2 || (r && (r->loop.empty() || r->extent < 2))) continue;
      const double vectors = std::ceil(static_cast<double>(l->extent) / static_cast<double>(lanes));
      const Iter* q = r ? interleaved_in_output(b, *l, *r) : nullptr;
      double cost = 0;
      for (const Access* a : accesses) cost += cost_of_access(*a, *l, r, q, lanes, side_of(b));
      cost *= vectors / static_cast<double>(l->extent);
      const bool nearer =
          q && best.written && best.lanes == l && cost <= least && pitch(*r) < pitch(*best.rows);
      if (cost < 0.95 * least || nearer) {
        least = cost;
        best = {l, r, q};
      }
    }
  return best;
}

}  // namespace nestor::library
