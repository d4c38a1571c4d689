// Where a fused loop is split and the factors don't divide, an index such as (f0*16 + f1)/17 has bounds that
// are too wide: f0*16 + f1 runs to 111, and only the block's guard says that nothing happens from 102 on.
// What the simplifier then makes of quotients and remainders hides the old loop. But the loops inside of a
// tile are few, so their iterations are run through: what isn't guarded out gives the bounds, and the number
// of different elements says whether there are gaps. Only what depends on running loops alone is counted; the
// rest of an index stands still beside it.
#include "schedules/exact_region.h"

#include <algorithm>
#include <set>

namespace nestor::schedules {

namespace {

constexpr int64_t kMost = int64_t{1} << 14;  // iterations

using Values = std::unordered_map<Var, int64_t>;

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

// An index as what stands still and what runs; none where one atom does both.
struct Split {
  Linear still;
  Expr running;
};
std::optional<Split> split_index(const Expr& e, const std::unordered_set<Var>& running) {
  Linear still, moving;
  const Linear all = linear_of(e);
  still.constant = all.constant;
  for (const Term& t : all.terms) {
    bool moves = false, stands = false;
    for (const Var& v : vars_of(t.atom)) (running.count(v) ? moves : stands) = true;
    if (moves && stands) return std::nullopt;
    (moves ? moving : still).terms.push_back(t);
  }
  return Split{still, to_expr(moving)};
}

// Runs through the iterations of the loops; false where there are too many.
template <class See>
bool run_through(const std::vector<Stmt>& loops, See&& see) {
  int64_t points = 1;
  for (const Stmt& l : loops) {
    const int64_t extent = extent_of(l);
    if (extent < 0 || (extent > 0 && points > kMost / extent)) return false;
    points *= extent;
  }
  Values at;
  for (int64_t n = 0; n < points; ++n) {
    int64_t rest = n;
    for (size_t i = loops.size(); i-- > 0;) {
      at[as_for(loops[i]).var] = rest % extent_of(loops[i]);
      rest /= extent_of(loops[i]);
    }
    if (!see(at)) return false;
  }
  return true;
}

// Conditions on running loops alone, as which the iterators' domains tell whether an instance runs.
struct Conditions {
  std::vector<std::pair<Expr, int64_t>> domains;  // 0 <= first < second
  bool guarded = false;                           // one of them is a guard
  bool open = false;                              // a guard is about standing loops too
};
Conditions conditions_of(const Block& b, const std::unordered_set<Var>& running) {
  Conditions out;
  for (const IterVar& i : b.iters) {
    const std::vector<Var> vars = vars_of(i.binding);
    const auto runs = [&](const Var& v) { return running.count(v) > 0; };
    const auto extent = as_int(i.extent);
    const bool guard = is_guard(b, i);
    if (std::none_of(vars.begin(), vars.end(), runs)) continue;
    if (!extent || !std::all_of(vars.begin(), vars.end(), runs)) {
      out.open = out.open || guard;
      continue;
    }
    out.domains.emplace_back(i.binding, *extent);
    out.guarded = out.guarded || guard;
  }
  return out;
}

}  // namespace

std::optional<int64_t> value_at(const Expr& e, const Values& at) {
  if (const auto* i = e.as<IntImm>()) return i->value;
  if (const auto* r = e.as<VarRef>()) {
    const auto it = at.find(r->var);
    return it == at.end() ? std::nullopt : std::optional(it->second);
  }
  const auto* b = e.as<Binary>();
  if (!b) return std::nullopt;
  const auto x = value_at(b->a, at), y = value_at(b->b, at);
  if (!x || !y) return std::nullopt;
  switch (b->op) {
    case BinaryOp::add:
      return *x + *y;
    case BinaryOp::sub:
      return *x - *y;
    case BinaryOp::mul:
      return *x * *y;
    case BinaryOp::min:
      return std::min(*x, *y);
    case BinaryOp::max:
      return std::max(*x, *y);
    case BinaryOp::div:
      return *y > 0 ? std::optional(floor_div(*x, *y)) : std::nullopt;
    case BinaryOp::mod:
      return *y > 0 ? std::optional(*x - floor_div(*x, *y) * *y) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<ExactRegion> exact_region(const Place& p, const BlockAccess& access,
                                        const std::vector<Stmt>& standing) {
  std::vector<Stmt> loops;
  std::unordered_set<Var> running;
  for (const Stmt& l : p.loops()) {
    const bool stands =
        std::any_of(standing.begin(), standing.end(), [&](const Stmt& s) { return s.same_as(l); });
    if (stands && extent_of(l) != 1) continue;
    loops.push_back(l);
    running.insert(as_for(l).var);
  }
  const Conditions conditions = conditions_of(p.block(), running);
  if (!conditions.guarded) return std::nullopt;

  ExactRegion out;
  out.dims = region_of(p, access, standing);
  std::vector<Split> counted;
  std::vector<size_t> dims;
  for (size_t d = 0; d < access.indices.size(); ++d)
    if (auto split = split_index(access.indices[d], running)) {
      counted.push_back(*split);
      dims.push_back(d);
    }
  std::set<std::vector<int64_t>> elements;
  const bool known = run_through(loops, [&](const Values& at) {
    for (const auto& [e, extent] : conditions.domains) {
      const auto v = value_at(e, at);
      if (!v) return false;
      if (*v < 0 || *v >= extent) return true;
    }
    std::vector<int64_t> element;
    for (const Split& s : counted) {
      const auto v = value_at(s.running, at);
      if (!v) return false;
      element.push_back(*v);
    }
    elements.insert(std::move(element));
    return true;
  });
  if (!known || elements.empty()) return std::nullopt;
  double volume = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    int64_t lo = (*elements.begin())[k], hi = lo;
    for (const auto& e : elements) {
      lo = std::min(lo, e[k]);
      hi = std::max(hi, e[k]);
    }
    out.dims[dims[k]] = Bound{counted[k].still, lo, hi};
    volume *= static_cast<double>(hi - lo + 1);
  }
  out.full = !conditions.open && dims.size() == access.indices.size() &&
             static_cast<double>(elements.size()) == volume;
  return out;
}

}  // namespace nestor::schedules
