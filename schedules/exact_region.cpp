// If a fused loop is split and the factors don't divide, an index such as (f0*16 + f1)/17 has bounds that are
// too wide: f0*16 + f1 runs to 111, and only the block's guard says that nothing happens from 102 on. What
// the simplifier then makes of quotients and remainders hides the old loop. But the loops inside of a tile
// are few, so their iterations are enumerated: those that the guard lets run give the bounds, and the number
// of different elements shows whether there are gaps. Only the part of an index that depends on running loops
// is enumerated; the rest is fixed.
#include "schedules/exact_region.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "schedules/region.h"

namespace nestor::schedules {

namespace {

constexpr int64_t kMost = int64_t{1} << 14;  // iterations

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

// Runs through the iterations of the loops that are used, the others standing at 0; false where all of them
// have too many.
template <class See>
bool run_through(const std::vector<Stmt>& loops, const std::unordered_set<Var>& used, See&& see) {
  int64_t points = 1;
  Values at;
  std::vector<std::pair<int64_t*, int64_t>> digits;  // a loop's value and extent
  for (const Stmt& l : loops) {
    const int64_t extent = extent_of(l);
    if (extent < 0 || (extent > 0 && points > kMost / extent)) return false;
    points *= extent;
    int64_t& value = at[as_for(l).var] = 0;
    if (used.count(as_for(l).var)) digits.emplace_back(&value, extent);
  }
  if (points == 0) return true;
  for (;;) {
    if (!see(at)) return false;
    size_t i = digits.size();
    while (i > 0 && ++*digits[i - 1].first == digits[i - 1].second) *digits[--i].first = 0;
    if (i == 0) return true;
  }
}

// Elements of `dims` indices each, one behind the other.
struct Elements {
  size_t dims = 0;
  bool any = false;
  std::vector<int64_t> values = {}, lo = {}, hi = {};

  void add(const std::vector<int64_t>& element) {
    if (!any) lo = hi = element;
    any = true;
    for (size_t d = 0; d < dims; ++d) {
      lo[d] = std::min(lo[d], element[d]);
      hi[d] = std::max(hi[d], element[d]);
    }
    values.insert(values.end(), element.begin(), element.end());
  }
  bool fill_box() const {
    double volume = 1;
    for (size_t d = 0; d < dims; ++d) volume *= static_cast<double>(hi[d] - lo[d] + 1);
    if (volume > static_cast<double>(kMost)) return false;
    std::vector<bool> seen(static_cast<size_t>(volume));
    for (size_t n = 0; n < values.size(); n += dims) {
      int64_t at = 0;
      for (size_t d = 0; d < dims; ++d) at = at * (hi[d] - lo[d] + 1) + values[n + d] - lo[d];
      seen[static_cast<size_t>(at)] = true;
    }
    return dims == 0 || std::find(seen.begin(), seen.end(), false) == seen.end();
  }
};

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
  std::unordered_set<Var> used;
  for (const auto& [e, extent] : conditions.domains)
    for (const Var& v : vars_of(e)) used.insert(v);
  for (const Split& c : counted)
    for (const Var& v : vars_of(c.running)) used.insert(v);
  Elements elements{dims.size()};
  std::vector<int64_t> element(dims.size());
  const bool known = run_through(loops, used, [&](const Values& at) {
    for (const auto& [e, extent] : conditions.domains) {
      const auto v = value_of(e, at);
      if (!v) return false;
      if (*v < 0 || *v >= extent) return true;
    }
    for (size_t k = 0; k < counted.size(); ++k) {
      const auto v = value_of(counted[k].running, at);
      if (!v) return false;
      element[k] = *v;
    }
    elements.add(element);
    return true;
  });
  if (!known || !elements.any) return std::nullopt;
  for (size_t k = 0; k < dims.size(); ++k)
    out.dims[dims[k]] = Bound{counted[k].still, elements.lo[k], elements.hi[k]};
  out.full = !conditions.open && dims.size() == access.indices.size() && elements.fill_box();
  return out;
}

namespace {

// What tells an element that an access touches, over the loops that run.
struct Counted {
  std::vector<Expr> element;
  Conditions conditions;
  std::vector<Stmt> loops;
  std::unordered_set<Var> used;
};

std::unordered_set<Var> running_in(const Place& p, const Stmt& loop) {
  std::unordered_set<Var> out;
  for (const Stmt& l : p.loops())
    if (p.depth_of(l) >= p.depth_of(loop)) out.insert(as_for(l).var);
  return out;
}

// What stands still inside of an atom that moves.
void add_mixed(const BlockAccess& access, const std::unordered_set<Var>& running,
               std::unordered_set<Var>& out) {
  for (const Expr& index : access.indices)
    for (const Term& t : linear_of(index).terms) {
      const std::vector<Var> vars = vars_of(t.atom);
      const auto stands = [&](const Var& v) { return !running.count(v); };
      if (!std::all_of(vars.begin(), vars.end(), stands))
        std::copy_if(vars.begin(), vars.end(), std::inserter(out, out.end()), stands);
    }
}

// Those loops are used that say which element it is, and the conditions about them.
void use(Counted& c, const Place& p, const Stmt& loop) {
  for (const Expr& e : c.element)
    for (const Var& v : vars_of(e)) c.used.insert(v);
  c.used.insert(as_for(loop).var);
  std::erase_if(c.conditions.domains, [&](const auto& d) {
    const std::vector<Var> vars = vars_of(d.first);
    return std::none_of(vars.begin(), vars.end(), [&](const Var& v) { return c.used.count(v) > 0; });
  });
  for (const auto& [e, extent] : c.conditions.domains)
    for (const Var& v : vars_of(e)) c.used.insert(v);
  for (const Stmt& l : p.loops())
    if (c.used.count(as_for(l).var)) c.loops.push_back(l);
}

}  // namespace

bool touch_in_one_iteration(const Place& p, const BlockAccess& x, const Place& q, const BlockAccess& y,
                            const Stmt& loop) {
  if (x.indices.size() != y.indices.size()) return false;
  std::unordered_set<Var> mixed;  // run through too, and a part of the element's name
  add_mixed(x, running_in(p, loop), mixed);
  add_mixed(y, running_in(q, loop), mixed);
  std::unordered_set<Var> run_p = running_in(p, loop), run_q = running_in(q, loop);
  run_p.insert(mixed.begin(), mixed.end());
  run_q.insert(mixed.begin(), mixed.end());
  Counted a, b;
  a.conditions = conditions_of(p.block(), run_p);
  b.conditions = conditions_of(q.block(), run_q);
  a.element.assign(mixed.begin(), mixed.end());
  b.element = a.element;
  for (size_t d = 0; d < x.indices.size(); ++d) {
    const auto s = split_index(x.indices[d], run_p), t = split_index(y.indices[d], run_q);
    if (!s || !t || !is_zero(add(s->still, t->still, -1))) continue;
    a.element.push_back(s->running);
    b.element.push_back(t->running);
  }
  use(a, p, loop);
  use(b, q, loop);
  std::map<std::vector<int64_t>, int64_t> touched;  // by which iteration
  const auto count = [&](const Counted& c) {
    bool apart = true;
    const bool counted = run_through(c.loops, c.used, [&](const Values& at) {
      for (const auto& [e, extent] : c.conditions.domains) {
        const auto v = value_of(e, at);
        if (!v) return apart = false;
        if (*v < 0 || *v >= extent) return true;
      }
      std::vector<int64_t> values;
      for (const Expr& e : c.element) {
        const auto v = value_of(e, at);
        if (!v) return apart = false;
        values.push_back(*v);
      }
      const int64_t now = at.at(as_for(loop).var);
      return apart = touched.emplace(std::move(values), now).first->second == now;
    });
    return counted && apart;
  };
  const bool one_function =
      p.stmt.same_as(q.stmt) && std::equal(x.indices.begin(), x.indices.end(), y.indices.begin(), same_expr);
  return count(a) && (one_function || count(b));
}

}  // namespace nestor::schedules
