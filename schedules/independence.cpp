// The proof uses what an element's indices determine: if equal indices imply equal values of the loop's
// variable, two iterations never touch the same element. Accesses of one block are compared as one function
// of the loops (the Solver of affine.h). For accesses of two blocks, the part of each index that depends on
// the loop is compared, and the rest is a range.
#include "schedules/independence.h"

#include <algorithm>
#include <map>
#include <set>

#include "schedules/digit.h"
#include "schedules/disjoint.h"
#include "schedules/exact_region.h"
#include "schedules/primitive.h"
#include "schedules/region.h"
#include "schedules/witness.h"

namespace nestor::schedules {

namespace {

// An index as outer + moved(p) + [lo, hi].
struct Parts {
  Linear outer, moved;
  int64_t lo = 0, hi = 0;
};
using PartsOfDims = std::vector<std::optional<Parts>>;

struct Seen {
  const Place* place;
  BlockAccess access;                                       // indices over loops
  mutable std::optional<PartsOfDims> bounded{}, counted{};  // of the loop it is asked about
};

bool same_function(const Seen& a, const Seen& b) {
  if (a.place != b.place || a.access.indices.size() != b.access.indices.size()) return false;
  for (size_t i = 0; i < a.access.indices.size(); ++i)
    if (!same_expr(a.access.indices[i], b.access.indices[i])) return false;
  return true;
}

bool told_by_one_function(const Seen& s, const Stmt& loop) {
  Solver solver;
  const size_t depth = s.place->depth_of(loop);
  for (size_t i = 0; i < s.place->path.size(); ++i) {
    const auto* l = s.place->path[i].as<For>();
    if (!l) continue;
    solver.range(l->var, range_of_loop(s.place->path[i]));
    if (i < depth) solver.know(l->var);
  }
  for (const IterVar& i : s.place->block().iters)
    if (const auto extent = as_int(i.extent)) solver.constrain(i.binding, *extent);
  for (const Expr& e : s.access.indices) solver.know(e);
  solver.solve();
  return solver.knows(as_for(loop).var);
}

// Of each dimension; `exact`: by counting, where guards make the bounds smaller and the index holds no such
// sum.
const PartsOfDims& parts_of(const Seen& s, const Stmt& loop, bool exact) {
  std::optional<PartsOfDims>& known = exact ? s.counted : s.bounded;
  if (known) return *known;
  std::vector<Stmt> standing;
  for (const Stmt& l : s.place->loops())
    if (s.place->depth_of(l) <= s.place->depth_of(loop)) standing.push_back(l);
  std::vector<std::optional<Bound>> bounds;
  if (const auto counted = exact ? exact_region(*s.place, s.access, standing) : std::nullopt)
    bounds = counted->dims;
  else
    bounds = guarded_region_of(*s.place, s.access, standing);
  PartsOfDims& out = known.emplace();
  for (const auto& bound : bounds) {
    out.emplace_back();
    if (!bound) continue;
    Parts& parts = out.back().emplace();
    parts.lo = bound->lo + bound->base.constant;
    parts.hi = bound->hi + bound->base.constant;
    for (const Term& t : bound->base.terms)
      (uses_var(t.atom, as_for(loop).var) ? parts.moved : parts.outer).terms.push_back(t);
  }
  return out;
}

// All values that the loop's iterations give to moved(p) + [lo, hi].
std::optional<Interval> values_of(const Parts& p, const Stmt& loop) {
  const auto moved = bound_of(to_expr(p.moved), {{as_for(loop).var, range_of_loop(loop)}}, {});
  if (!moved || !moved->base.is_constant()) return std::nullopt;
  const int64_t start = moved->base.constant;
  return Interval{p.lo + start + moved->lo, p.hi + start + moved->hi};
}

// While the loops around stand still, wherever in their ranges: a[t+1, ..] and a[t, ..], or a[8*t+i] and
// a[-1].
bool apart_in(const Parts& x, const Parts& y, const std::unordered_map<Var, Interval>& around,
              const Stmt& loop) {
  const auto xs = values_of(x, loop), ys = values_of(y, loop);
  if (!xs || !ys) return false;
  const Linear outer = add(x.outer, y.outer, -1);
  const Interval rest{xs->lo - ys->hi, xs->hi - ys->lo};
  if (never_zero(outer, rest)) return true;
  const auto moved = bound_of(to_expr(outer), around, {});
  if (!moved || !moved->base.is_constant()) return false;
  return moved->base.constant + moved->lo + rest.lo > 0 || moved->base.constant + moved->hi + rest.hi < 0;
}

bool told_by_both(const Seen& a, const Seen& b, const Stmt& loop, bool exact) {
  if (a.access.indices.size() != b.access.indices.size()) return false;
  Solver solver;
  solver.range(as_for(loop).var, range_of_loop(loop));
  // Loops around the loop: standing still, known, and bounded (digits of p may be written with them).
  std::unordered_map<Var, Interval> around;
  for (const Stmt& s : a.place->loops()) {
    if (s.same_as(loop)) break;
    around[as_for(s).var] = range_of_loop(s);
    solver.range(as_for(s).var, range_of_loop(s));
    solver.know(as_for(s).var);
  }
  const PartsOfDims &xs = parts_of(a, loop, exact), &ys = parts_of(b, loop, exact);
  for (size_t d = 0; d < xs.size(); ++d) {
    const auto &x = xs[d], &y = ys[d];
    if (!x || !y) continue;
    if (apart_in(*x, *y, around, loop)) return true;
    if (!is_zero(add(x->outer, y->outer, -1)) || !is_zero(add(x->moved, y->moved, -1))) continue;
    const Var rest = make_var("rest");
    solver.range(rest, {0, std::max(x->hi, y->hi) - std::min(x->lo, y->lo)});
    solver.know(to_expr(x->moved) + Expr(rest));
  }
  solver.solve();
  return solver.knows(as_for(loop).var);
}

bool told_apart(const Seen& a, const Seen& b, const Stmt& loop) {
  const bool same = same_function(a, b);
  if (same ? told_by_one_function(a, loop) : told_by_both(a, b, loop, false)) return true;
  return told_by_both(a, b, loop, true) ||
         touch_in_one_iteration(*a.place, a.access, *b.place, b.access, loop);
}

// Equal indices put a's iteration p at or before b's: with c*p + [lo, hi] on both sides in some dimension, no
// difference of the rests reaches c.
bool never_after(const Seen& a, const Seen& b, const Stmt& loop) {
  if (a.access.indices.size() != b.access.indices.size()) return false;
  const PartsOfDims &xs = parts_of(a, loop, true), &ys = parts_of(b, loop, true);
  for (size_t d = 0; d < xs.size(); ++d) {
    const auto &x = xs[d], &y = ys[d];
    if (!x || !y) continue;
    if (!is_zero(add(x->outer, y->outer, -1)) || !is_zero(add(x->moved, y->moved, -1))) continue;
    if (x->moved.terms.size() != 1 || !x->moved.terms[0].atom.as<VarRef>()) continue;
    const int64_t c = x->moved.terms[0].coefficient;
    if (c > 0 ? y->hi - x->lo < c : y->lo - x->hi > c) return true;
  }
  return false;
}

std::string text_of(const Seen& s) {
  return std::string(s.access.write ? s.access.read ? "updates " : "writes " : "reads ") +
         s.access.buffer->name;
}

Conflict describe(const Seen& a, const Seen& b, const Stmt& loop) {
  Conflict c;
  c.buffer = a.access.buffer;
  c.blocks = {a.place->stmt};
  const std::string& name = loop_name(loop);
  if (a.place == b.place && use_of(a.place->block(), as_for(loop).var).reduce) {
    BlockAccess updated = a.access;  // also where it is the init that was found
    updated.read = updated.write = true;
    c.why = name + " is a reduction loop of block " + a.place->name() +
            ": its iterations update the same element of " + a.access.buffer->name +
            meeting_of(loop, *a.place, updated, *b.place, updated);
    return c;
  }
  c.why = "two iterations of " + name + " may access the same element of " + a.access.buffer->name +
          ": block " + a.place->name() + " " + text_of(a);
  if (a.place != b.place) {
    c.blocks.push_back(b.place->stmt);
    c.why += ", block " + b.place->name() + " " + text_of(b);
  }
  c.why += meeting_of(loop, *a.place, a.access, *b.place, b.access);
  return c;
}

bool declared_inside(const Stmt& loop, const Buffer& b) {
  bool found = false;
  for_each_stmt(loop,
                [&](const Stmt& s) { found = found || (s.as<Alloc>() && s.as<Alloc>()->decl.buffer == b); });
  return found;
}

}  // namespace

std::optional<Conflict> find_conflict(const PrimFunc& f, const Stmt& loop) {
  const int64_t extent = extent_of(loop);
  if (extent >= 0 && extent <= 1) return std::nullopt;
  const std::vector<Place> all = places_under(f.body, loop);
  // What nobody writes, or each iteration has for itself, can't clash.
  std::unordered_set<Buffer> clashing;
  for (const Place& p : all)
    for (const BlockAccess& a : accesses_of(p.block()))
      if (a.write && !clashing.count(a.buffer) && !declared_inside(loop, a.buffer)) clashing.insert(a.buffer);
  std::vector<Seen> seen;
  for (const Place& p : all)
    for (BlockAccess& a : accesses_at(p, [&](const Buffer& b) { return clashing.count(b) > 0; }))
      seen.push_back({&p, std::move(a)});
  // An init and an update of one element are one function: what is proved of one holds for the other.
  std::vector<size_t> like(seen.size());
  for (size_t i = 0; i < seen.size(); ++i)
    while (seen[like[i]].access.buffer != seen[i].access.buffer || !same_function(seen[like[i]], seen[i]))
      ++like[i];
  std::set<std::pair<size_t, size_t>> asked;
  for (size_t i = 0; i < seen.size(); ++i)
    for (size_t j = i; j < seen.size(); ++j) {
      const Seen &a = seen[i], &b = seen[j];
      if (a.access.buffer != b.access.buffer || (!a.access.write && !b.access.write)) continue;
      const bool proved = !asked.insert({like[i], like[j]}).second;  // a pair that meets ends the search
      if (proved || told_apart(a, b, loop)) continue;
      return a.access.write ? describe(a, b, loop) : describe(b, a, loop);
    }
  return std::nullopt;
}

namespace {

std::vector<Place> places_in(const PrimFunc& f, const std::vector<Stmt>& parts) {
  std::vector<Place> out;
  for (const Stmt& part : parts)
    for (Place& p : places_under(f.body, part)) out.push_back(std::move(p));
  return out;
}

struct Touch {
  const Place* place;
  BlockAccess access;  // indices over the block's iterators
};

std::vector<Touch> touches_at(const std::vector<Place>& all) {
  std::vector<Touch> out;
  for (const Place& p : all)
    for (BlockAccess& a : accesses_of(p.block())) out.push_back({&p, std::move(a)});
  return out;
}

// The buffers that are touched, and whether they are written; only looked up.
std::map<const BufferNode*, bool> buffers_of(const std::vector<Touch>& touches) {
  std::map<const BufferNode*, bool> out;
  for (const Touch& t : touches) out[t.access.buffer.get()] |= t.access.write;
  return out;
}

// Whether no pair of which one writes has an element in common, whatever instances run.
bool have_nothing_in_common(const std::vector<Touch>& first, const std::vector<Touch>& second,
                            const BufferTest& meet) {
  for (const Touch& a : first)
    for (const Touch& b : second)
      if (a.access.buffer == b.access.buffer && (a.access.write || b.access.write) && meet(a.access.buffer) &&
          !never_meet(a.place->block(), a.access, b.place->block(), b.access))
        return false;
  return true;
}

// Whether digits tell all pairs apart of which one writes.
bool told_by_digits(const std::vector<Touch>& first, const std::vector<Touch>& second, const BufferTest& meet,
                    const Stmt& loop) {
  using Told = std::pair<const BlockAccess*, Digits>;
  const auto told = [&](const std::vector<Touch>& touches) {
    std::vector<Told> out;
    for (const Touch& t : touches)
      if (meet(t.access.buffer)) out.emplace_back(&t.access, digits_of(*t.place, t.access, loop));
    return out;
  };
  const std::vector<Told> before = told(first), behind = told(second);
  return std::all_of(before.begin(), before.end(), [&](const Told& a) {
    return std::all_of(behind.begin(), behind.end(), [&](const Told& b) {
      return a.first->buffer != b.first->buffer || (!a.first->write && !b.first->write) ||
             tell_apart(a.second, b.second);
    });
  });
}

// The first pair of accesses of two parts of a loop's body, one of them writing, of which it isn't proved.
template <class Proved, class Described>
std::optional<Conflict> first_pair(const PrimFunc& f, const Stmt& loop, const std::vector<Stmt>& first,
                                   const std::vector<Stmt>& second, const Proved& proved,
                                   const Described& described) {
  if (extent_of(loop) == 1) return std::nullopt;
  const std::vector<Place> firsts = places_in(f, first), seconds = places_in(f, second);
  const std::vector<Touch> earlier = touches_at(firsts), later = touches_at(seconds);
  const auto xs = buffers_of(earlier), ys = buffers_of(later);
  const auto meet = [&](const Buffer& b) {  // else each iteration has it for itself, or nobody writes it
    const auto x = xs.find(b.get()), y = ys.find(b.get());
    return x != xs.end() && y != ys.end() && (x->second || y->second) && !declared_inside(loop, b);
  };
  if (have_nothing_in_common(earlier, later, meet) || told_by_digits(earlier, later, meet, loop))
    return std::nullopt;
  const auto seen_at = [&](const std::vector<Place>& all) {
    std::vector<Seen> out;
    for (const Place& p : all)
      for (BlockAccess& a : accesses_at(p, meet)) out.push_back({&p, std::move(a)});
    return out;
  };
  const std::vector<Seen> before = seen_at(firsts), behind = seen_at(seconds);
  for (const Seen& a : before)
    for (const Seen& b : behind)
      if (a.access.buffer == b.access.buffer && (a.access.write || b.access.write) && !proved(a, b))
        return described(a, b);
  return std::nullopt;
}

}  // namespace

std::optional<Conflict> find_conflict_between(const PrimFunc& f, const Stmt& loop,
                                              const std::vector<Stmt>& first,
                                              const std::vector<Stmt>& second) {
  return first_pair(
      f, loop, first, second, [&](const Seen& a, const Seen& b) { return told_apart(a, b, loop); },
      [&](const Seen& a, const Seen& b) {
        return a.access.write ? describe(a, b, loop) : describe(b, a, loop);
      });
}

std::optional<Conflict> find_backward(const PrimFunc& f, const Stmt& loop, const std::vector<Stmt>& first,
                                      const std::vector<Stmt>& second) {
  return first_pair(
      f, loop, first, second,
      [&](const Seen& a, const Seen& b) { return never_after(a, b, loop) || told_by_both(a, b, loop, true); },
      [&](const Seen& a, const Seen& b) {
        return Conflict{"a later iteration of " + loop_name(loop) + " of block " + a.place->name() +
                            ", which " + text_of(a) + ", may meet an earlier one of block " +
                            b.place->name() + ", which " + text_of(b),
                        {a.place->stmt, b.place->stmt},
                        a.access.buffer};
      });
}

std::optional<Conflict> find_overwriting(const PrimFunc& f, const Place& p, const std::vector<Place>& to) {
  for (const Buffer& b : read_buffers(p.block()))
    for (const Place& w : writers(f, b))
      for (const Stmt& l : p.loops()) {
        const auto stays = [&](const Place& t) { return t.under(l); };
        if (w.stmt.same_as(p.stmt) || !w.under(l) || std::all_of(to.begin(), to.end(), stays)) continue;
        if (auto c = find_backward(f, l, {w.stmt}, {p.stmt})) return c;
      }
  return std::nullopt;
}

std::optional<Conflict> find_hurried(const PrimFunc& f, const Place& p, const Place& to) {
  const std::vector<Place> all = places(f.body);
  bool behind = false;
  for (const Place& q : all) {
    for (const Stmt& l : p.loops())
      if (behind && q.under(l) && !to.under(l) && extent_of(l) != 1)
        if (auto c = find_backward(f, l, {p.stmt}, {q.stmt})) return c;
    behind = behind || q.stmt.same_as(p.stmt);
  }
  return std::nullopt;
}

}  // namespace nestor::schedules
