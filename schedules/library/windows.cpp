#include "schedules/library/windows.h"

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::library {

bool moves_by_one(const Access& a, const Iter& i) {
  return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) {
    const auto index = as_affine(e);
    return index && coefficient(*index, i.var) == 1;
  });
}

int64_t stays_of(const Target& target) {
  return target.l2_bytes * 3 / 4;
}

bool lies_apart(const BlockInfo& b, const Access& a, const Iter& r, int64_t reach) {
  if (!a.uses(r) || std::abs(a.stride(r).value_or(a.elements)) <= reach) return false;
  for (const Iter* i : b.spatial())
    if (a.slides_along(r, *i)) return false;
  return true;
}

std::vector<LoopInfo> loops_around_row(const Schedule& s, const std::string& block,
                                       const std::string& row_tiles,
                                       const std::vector<std::string>& reduced) {
  std::vector<LoopInfo> out;
  for (const LoopInfo& l : loops_of(s.func(), block)) {
    if (l.name == row_tiles || std::find(reduced.begin(), reduced.end(), l.name) != reduced.end()) break;
    out.push_back(l);
  }
  return out;
}

}  // namespace nestor::library
