#include "schedules/digit.h"

#include <algorithm>
#include <cstdlib>

#include "nestor/walk.h"

namespace nestor::schedules {

Digits digits_of(const Place& p, const BlockAccess& access, const Stmt& loop) {
  const VarMap bindings = bindings_of(p.block());
  std::unordered_map<Var, Interval> inside;
  for (const Stmt& l : p.loops())
    if (p.depth_of(l) > p.depth_of(loop)) inside[as_for(l).var] = range_of_loop(l);
  Digits out(access.indices.size());
  for (size_t d = 0; d < out.size(); ++d) {
    const Expr index = substitute(access.indices[d], bindings);
    if (!uses_var(index, as_for(loop).var)) continue;
    const auto bound = bound_of(index, inside, {as_for(loop).var});
    if (!bound || bound->base.terms.size() != 1 || !bound->base.terms[0].atom.as<VarRef>()) continue;
    const int64_t constant = bound->base.constant;
    out[d] = Digit{bound->base.terms[0].coefficient, constant + bound->lo, constant + bound->hi};
  }
  return out;
}

bool tell_apart(const Digits& a, const Digits& b) {
  for (size_t d = 0; d < std::min(a.size(), b.size()); ++d)
    if (a[d] && b[d] && a[d]->factor == b[d]->factor &&
        std::max(a[d]->hi, b[d]->hi) - std::min(a[d]->lo, b[d]->lo) < std::abs(a[d]->factor))
      return true;
  return false;
}

}  // namespace nestor::schedules
