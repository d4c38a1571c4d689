// Windows of an input come back with the next row of tiles. Where they don't stay in the cache beside the
// weights until then, and are cut up too much to be foreseen by the machine, they are asked for one step of
// the reduction ahead (a 3x3 window over 320 channels: half the time).
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

// How far windows of neighbouring rows are apart, in elements of the dimension they slide over.
int64_t step_of(const Access& a, const Iter& row) {
  for (const Expr& e : a.indices)
    if (const auto affine = as_affine(e); affine && uses_var(e, row.var))
      return std::abs(coefficient(*affine, row.var));
  return 1;
}

// Bytes of an operand that pass while one row of tiles is computed, each once.
int64_t bytes_of_row(const BlockInfo& b, const Access& a, const Tile& t) {
  int64_t n = bytes_of(a.buffer->type.dtype);
  for (const Iter& i : b.iters) {
    if (!a.uses(i)) continue;
    bool slides = false;  // over what the row has already
    for (const Expr& e : a.indices)
      slides |= i.reduce && t.row && uses_var(e, i.var) && uses_var(e, t.row->var);
    if (&i == t.row)
      n *= i.extent * step_of(a, i);
    else if (&i == t.vector)
      n *= t.width;
    else if (&i == t.column)
      n *= t.columns;
    else if (i.reduce && !slides)
      n *= i.extent;
  }
  return n;
}

// Neighbouring outputs read some elements alike: an S and an R iterator in one index.
bool has_windows(const BlockInfo& b, const Access& a) {
  for (const Expr& e : a.indices)
    for (const Iter* i : b.spatial())
      for (const Iter* r : b.reduced())
        if (r->extent > 1 && uses_var(e, i->var) && uses_var(e, r->var)) return true;
  return false;
}

}  // namespace

void prefetch_windows(Schedule& s, const std::string& block, const BlockInfo& b, const Tile& t,
                      const std::vector<std::string>& reduced, const std::vector<std::string>& taps,
                      const Target& target) {
  if (!t.vector || !t.row || t.turned || reduced.size() < 2) return;
  const auto is_loop = [&](const std::string& l) {
    return std::find(taps.begin(), taps.end(), l) == taps.end();
  };
  const auto loop = std::find_if(reduced.begin(), reduced.end() - 1, is_loop);
  if (loop == reduced.end() - 1 || extent_of(s, block, *loop) < 2) return;
  int64_t together = 0;
  for (const Access& a : b.accesses)
    if (!a.write) together += bytes_of_row(b, a, t);
  if (10 * together < 7 * target.l2_bytes) return;
  const BlockInfo now = analyze(s.func(), block);  // without the padding that was inlined
  const auto decls = declarations(s.func());
  for (const Access& a : now.accesses) {
    if (a.write || a.constant || !has_windows(now, a)) continue;
    int64_t size = bytes_of(a.buffer->type.dtype);
    for (const Expr& e : decls.at(a.buffer).shape) size *= as_int(e).value_or(0);
    if (size <= target.l2_bytes) continue;
    s.because(fmt::format("{:.0f} KiB pass until a window comes back, the cache holds {:.0f}",
                          static_cast<double>(together) / 1024, static_cast<double>(target.l2_bytes) / 1024));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1", block, *loop, a.buffer->name));
  }
}

}  // namespace nestor::library
