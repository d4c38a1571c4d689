#include "schedules/region.h"

#include <algorithm>

namespace nestor::schedules {

namespace {

bool is_among(const std::vector<Stmt>& loops, const Stmt& l) {
  return std::any_of(loops.begin(), loops.end(), [&](const Stmt& other) { return other.same_as(l); });
}

// The extents of loops.
using Extents = std::unordered_map<Var, Expr>;

// A digit of a loop variable, (v / lower) % size: the variable itself, or what fuse made of it. Digits of one
// variable that don't overlap take all combinations, if each bound of them divides the extent.
struct Digit {
  Var v;
  int64_t lower = 1, size = 1;  // size 0: symbolic
};

bool is_multiple(const Linear& l, int64_t of) {
  return l.constant % of == 0 &&
         std::all_of(l.terms.begin(), l.terms.end(), [of](const Term& t) { return t.coefficient % of == 0; });
}

std::optional<Digit> digit_of(const Expr& atom, const Extents& extents) {
  Digit d;
  const auto* outer = atom.as<Binary>();
  std::optional<int64_t> modulus;
  Expr inside = atom;
  if (outer && outer->op == BinaryOp::mod) {
    modulus = as_int(outer->b);
    if (!modulus) return std::nullopt;
    inside = outer->a;
  }
  if (const auto* div = inside.as<Binary>(); div && div->op == BinaryOp::div && as_int(div->b)) {
    d.lower = *as_int(div->b);
    inside = div->a;
  }
  if (!inside.as<VarRef>() || d.lower < 1 || modulus.value_or(1) < 1) return std::nullopt;
  d.v = inside.as<VarRef>()->var;
  const auto known = extents.find(d.v);
  if (known == extents.end()) return std::nullopt;
  const Linear extent = linear_of(known->second);
  if (extent.is_constant() && extent.constant < 1) return std::nullopt;
  d.size = modulus.value_or(extent.is_constant() ? extent.constant / d.lower : 0);
  return is_multiple(extent, d.lower * std::max<int64_t>(d.size, 1)) ? std::optional(d) : std::nullopt;
}

bool overlap(const Digit& a, const Digit& b) {
  return a.v == b.v && (b.size == 0 || a.lower < b.lower * b.size) &&
         (a.size == 0 || b.lower < a.lower * a.size);
}

}  // namespace

bool gapless(const Place& p, const BlockAccess& write, const std::vector<Stmt>& standing) {
  Extents extents;
  for (const Stmt& l : p.loops()) extents[as_for(l).var] = as_for(l).extent;
  const auto moves = [&](const Expr& e) {
    for (const Stmt& l : p.loops())
      if (!is_among(standing, l) && extent_of(l) != 1 && uses_var(e, as_for(l).var)) return true;
    return false;
  };
  for (const Expr& e :
       write.indices) {  // empty bounds have no gaps: a loop that never runs is the whole index
    const Linear index = linear_of(e);
    const auto* only = index.terms.size() == 1 ? index.terms[0].atom.as<VarRef>() : nullptr;
    if (only && moves(e) && as_int(extents.at(only->var)).value_or(1) < 1) return true;
  }
  std::vector<Digit> used;
  for (const Expr& e : write.indices) {
    std::vector<std::pair<int64_t, int64_t>> steps;  // coefficient, size
    for (const Term& t : linear_of(e).terms) {
      if (!moves(t.atom)) continue;
      const auto d = digit_of(t.atom, extents);
      if (!d || t.coefficient <= 0) return false;
      if (std::any_of(used.begin(), used.end(), [&](const Digit& other) { return overlap(*d, other); }))
        return false;
      used.push_back(*d);
      if (d->size != 1) steps.emplace_back(t.coefficient, d->size);
    }
    std::sort(steps.begin(), steps.end());
    int64_t reached = 1;  // of a symbolic size, by its first step alone
    for (const auto& [coefficient, size] : steps) {
      if (coefficient > reached) return false;
      reached += coefficient * std::max<int64_t>(size - 1, 0);
    }
  }
  return true;
}

bool fills_region(const Place& p, const BlockAccess& write, const std::vector<Stmt>& standing) {
  // A guard on loops that run may keep part of the region out; one on R loops only holds at their beginning.
  for (const IterVar& i : p.block().iters) {
    if (!is_guard(p.block(), i)) continue;
    for (const Stmt& l : p.loops()) {
      if (is_among(standing, l) || extent_of(l) == 1 || !uses_var(i.binding, as_for(l).var)) continue;
      const LoopUse use = use_of(p.block(), as_for(l).var);
      if (use.spatial || !use.reduce) return false;
    }
  }
  return gapless(p, write, standing) && runs_where_elements_are(p, write, standing);
}

bool runs_where_elements_are(const Place& p, const BlockAccess& write, const std::vector<Stmt>& standing) {
  for (const Stmt& l : p.loops()) {
    const auto moves = [&](const Expr& e) { return uses_var(e, as_for(l).var); };
    if (extent_of(l) < 0 && !is_among(standing, l) && !use_of(p.block(), as_for(l).var).reduce &&
        std::none_of(write.indices.begin(), write.indices.end(), moves))
      return false;
  }
  return true;
}

namespace {

struct Motion {
  std::unordered_map<Var, Interval> moving;
  std::unordered_set<Var> fixed;
  VarMap open;
};
Motion motion_of(const Place& p, const std::vector<Stmt>& standing) {
  Motion out;
  out.fixed = sizes_at(p);
  for (const Stmt& l : p.loops())
    if (is_among(standing, l) && extent_of(l) != 1) {
      out.fixed.insert(as_for(l).var);
    } else {
      out.moving[as_for(l).var] = range_of_loop(l);
      if (is_open(l, out.fixed)) out.open[as_for(l).var] = as_for(l).extent;
    }
  return out;
}

// Bounds of an index in which a guard's sum stands beside what moves without it: that sum stays in the
// guard's range.
std::optional<Bound> guarded_bound(const Linear& index, const IterVar& guard, const Motion& m) {
  const Linear sum = linear_of(guard.binding);
  const auto extent = as_int(guard.extent);
  if (!extent || *extent < 1 || sum.terms.empty()) return std::nullopt;
  int64_t times = 0;
  for (const Term& t : index.terms)
    if (same_expr(t.atom, sum.terms[0].atom)) times = t.coefficient / sum.terms[0].coefficient;
  const Linear rest = add(index, sum, -times);
  for (const Var& v : vars_of(guard.binding))
    if (times <= 0 || uses_var(to_expr(rest), v)) return std::nullopt;
  const auto inside = bound_of(guard.binding, m.moving, m.fixed, m.open),
             beside = bound_of(to_expr(rest), m.moving, m.fixed, m.open);
  if (!inside || !beside || !inside->base.is_constant() || !is_zero(inside->span)) return std::nullopt;
  const int64_t lo = std::max<int64_t>(inside->lo + inside->base.constant, 0);
  const int64_t hi = std::min(inside->hi + inside->base.constant, *extent - 1);
  if (hi < lo) return std::nullopt;
  return Bound{beside->base, beside->lo + times * lo, beside->hi + times * hi, beside->span};
}

}  // namespace

bool covers_domain(const Place& p, const IterVar& i) {
  const Interval range = range_of(i.binding, facts_at(p));
  if (const auto extent = as_int(i.extent); extent && range.hi < Interval::kMax)
    return range.lo <= 0 && range.hi >= *extent - 1;
  const Motion all = motion_of(p, {});
  const auto bound = bound_of(i.binding, all.moving, all.fixed, all.open);
  return bound && bound->base.is_constant() && bound->base.constant + bound->lo <= 0 &&
         surely_le(linear_of(i.extent), add(add(bound->base, bound->last()), number(1)));
}

std::vector<std::optional<Bound>> region_of(const Place& p, const BlockAccess& access,
                                            const std::vector<Stmt>& standing) {
  const Motion motion = motion_of(p, standing);
  std::vector<std::optional<Bound>> dims;
  for (const Expr& e : access.indices) dims.push_back(bound_of(e, motion.moving, motion.fixed, motion.open));
  return dims;
}

std::vector<std::optional<Bound>> guarded_region_of(const Place& p, const BlockAccess& access,
                                                    const std::vector<Stmt>& standing) {
  const Motion motion = motion_of(p, standing);
  std::vector<std::optional<Bound>> dims = region_of(p, access, standing);
  for (size_t d = 0; d < dims.size(); ++d)
    for (const IterVar& i : p.block().iters)
      if (dims[d] && is_guard(p.block(), i))
        if (const auto b = guarded_bound(linear_of(access.indices[d]), i, motion);
            b && is_zero(add(b->span, dims[d]->span, -1)) && b->hi - b->lo < dims[d]->hi - dims[d]->lo)
          dims[d] = b;
  return dims;
}

}  // namespace nestor::schedules
