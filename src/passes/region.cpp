// Indices are written in loop variables (block iterators are replaced by their bindings) and simplified with
// the known ranges. A span is then the sum of the fixed terms and the extremes of the running ones.
#include "src/passes/region.h"

#include <algorithm>
#include <numeric>

#include "src/passes/counting.h"

namespace nestor::passes {

namespace {

// Collects accesses in program order.
class Collector : public Walker {
 public:
  explicit Collector(const Facts& facts) { here_.facts = facts; }
  Accesses found;

  void stmt(const Stmt& s) override {
    if (const auto* loop = s.as<For>()) {
      expr(loop->extent);
      const Interval extent = range_of(loop->extent, here_.facts);
      here_.facts.set(loop->var,
                      {0, extent.hi >= Interval::kMax ? extent.hi : std::max<int64_t>(extent.hi - 1, 0)});
      here_.loops.push_back(loop);
      stmt(loop->body);
      here_.loops.pop_back();
    } else if (const auto* branch = s.as<If>()) {
      expr(branch->cond);
      here_.ifs.push_back(branch);
      assuming(substitute(branch->cond, bindings_), branch->then_case);
      if (branch->else_case) assuming(logical_not(substitute(branch->cond, bindings_)), branch->else_case);
      here_.ifs.pop_back();
    } else if (const auto* block = s.as<Block>()) {
      in_block(*block);
    } else if (const auto* st = s.as<Store>()) {
      for (const Expr& i : st->indices) expr(i);
      expr(st->value);
      record(st->buffer, in_init_ ? AccessKind::init : AccessKind::write, st->indices);
    } else if (const auto* u = s.as<Update>()) {
      for (const Expr& i : u->indices) expr(i);
      expr(u->value);
      record(u->buffer, AccessKind::update, u->indices);
    } else {
      children(s);
    }
  }

  void expr(const Expr& e) override {
    if (const auto* l = e.as<Load>()) record(l->buffer, AccessKind::read, l->indices);
    children(e);
  }

 private:
  void assuming(const Expr& condition, const Stmt& body) {
    const Facts outer = here_.facts;
    here_.facts.assume(condition);
    stmt(body);
    here_.facts = outer;
  }
  void in_block(const Block& block) {
    const Block* outer = here_.block;
    here_.block = &block;
    const std::vector<IterVar> guards = here_.guards;
    for (const IterVar& i : block.iters) {
      bindings_[i.var] = substitute(i.binding, bindings_);
      const Expr at = simplify(bindings_[i.var], here_.facts);
      const Interval range = range_of(at, here_.facts);
      if (const auto extent = as_int(i.extent); extent && (range.lo < 0 || range.hi >= *extent))
        here_.guards.push_back({i.var, i.kind, i.extent, at});
    }
    if (block.where) expr(block.where);
    if (block.init) {
      in_init_ = true;
      stmt(block.init);
      in_init_ = false;
    }
    stmt(block.body);
    here_.block = outer;
    here_.guards = guards;
  }
  void record(const Buffer& b, AccessKind kind, const std::vector<Expr>& indices) {
    Access a = here_;
    a.kind = kind;
    for (const Expr& i : indices) a.indices.push_back(simplify(substitute(i, bindings_), here_.facts));
    found[b].push_back(std::move(a));
  }

  Access here_{AccessKind::read, {}, {}, {}, nullptr, {}, {}};
  VarMap bindings_;
  bool in_init_ = false;
};

bool mentions(const Expr& e, const std::vector<Var>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return uses_var(e, v); });
}

}  // namespace

Accesses find_accesses(const Stmt& s, const Facts& facts) {
  Collector c(facts);
  c.stmt(s);
  return std::move(c.found);
}

std::optional<Span> span_of(const Expr& index, const std::vector<Var>& running, const Facts& facts) {
  Linear fixed;
  Span span;
  span.step = 0;
  const Linear sum = linear(index);
  for (const auto& [atom, coefficient] : sum.terms) {
    if (!mentions(atom, running)) {
      fixed.terms.emplace_back(atom, coefficient);
      continue;
    }
    const Interval r = range_of(atom, facts);
    if (r.lo <= Interval::kMin || r.hi >= Interval::kMax) return std::nullopt;
    span.lo += coefficient * (coefficient > 0 ? r.lo : r.hi);
    span.hi += coefficient * (coefficient > 0 ? r.hi : r.lo);
    span.step = std::gcd(span.step, coefficient);
  }
  span.lo += sum.constant;
  span.hi += sum.constant;
  span.base = to_expr(fixed);
  span.step = std::max<int64_t>(span.step, 1);
  return span;
}

namespace {

// The span of an index that holds a guard's sum, if only running loops move that and nothing else moves with
// it: the sum stays in the guard's range.
std::optional<Span> guarded_span(const Expr& index, const IterVar& guard, const std::vector<Var>& running,
                                 const Facts& facts) {
  const Linear sum = linear(guard.binding);
  int64_t times = 0;
  for (const auto& [atom, coefficient] : linear(index).terms)
    if (!sum.terms.empty() && same_expr(atom, sum.terms[0].first)) times = coefficient / sum.terms[0].second;
  const Expr rest = simplify(index - times * guard.binding);
  const auto both = [&](const Var& v) { return uses_var(rest, v) && uses_var(guard.binding, v); };
  if (times <= 0 || std::any_of(running.begin(), running.end(), both)) return std::nullopt;
  const auto inside = span_of(guard.binding, running, facts), beside = span_of(rest, running, facts);
  if (!inside || !beside || as_int(inside->base) != 0) return std::nullopt;
  const int64_t lo = std::max<int64_t>(inside->lo, 0), hi = std::min(inside->hi, *as_int(guard.extent) - 1);
  if (hi < lo) return std::nullopt;
  return Span{beside->base, beside->lo + times * lo, beside->hi + times * hi};
}

// The span of an index that has quotients or remainders of what a guard bounds, counted: (i*28 + t)/9 with
// i*28 + t below 90 ends at 9.
std::optional<Span> counted_span(const Access& a, size_t dim, const std::vector<Var>& running) {
  Linear moving, fixed;
  const Linear sum = linear(a.indices[dim]);
  fixed.constant = sum.constant;
  for (const auto& term : sum.terms) (mentions(term.first, running) ? moving : fixed).terms.push_back(term);
  const auto is_plain = [](const auto& term) { return term.first.template as<VarRef>() != nullptr; };
  if (std::all_of(moving.terms.begin(), moving.terms.end(), is_plain)) return std::nullopt;
  const auto runs = [&](const Var& v) {
    return std::find(running.begin(), running.end(), v) != running.end();
  };
  const Expr index = to_expr(moving);
  std::vector<Var> vars = vars_of(index);
  if (!std::all_of(vars.begin(), vars.end(), runs)) return std::nullopt;
  std::vector<const IterVar*> guards;
  for (const IterVar& g : a.guards) {
    const std::vector<Var> bound = vars_of(g.binding);
    if (!mentions(g.binding, vars) || !std::all_of(bound.begin(), bound.end(), runs)) continue;
    guards.push_back(&g);
    for (const Var& v : bound)
      if (std::find(vars.begin(), vars.end(), v) == vars.end()) vars.push_back(v);
  }
  if (guards.empty()) return std::nullopt;
  std::optional<Span> out;
  bool known = true;
  const bool counted = run_through(vars, a.facts, [&](const Values& at) {
    for (const IterVar* g : guards) {
      const auto v = value_of(g->binding, at);
      known = known && v;
      if (!known) return false;
      if (*v < 0 || *v >= *as_int(g->extent)) return true;
    }
    const auto v = value_of(index, at);
    known = known && v;
    if (!known) return false;
    if (!out) out = Span{to_expr(fixed), *v, *v};
    out->lo = std::min(out->lo, *v);
    out->hi = std::max(out->hi, *v);
    return true;
  });
  return counted && known ? out : std::nullopt;
}

}  // namespace

std::optional<Span> span_of(const Access& a, size_t dim, const std::vector<Var>& running) {
  auto span = span_of(a.indices[dim], running, a.facts);
  if (!span || span->step != 1 || a.guards.empty()) return span;  // a shorter one might begin between steps
  for (const IterVar& g : a.guards)
    if (const auto s = guarded_span(a.indices[dim], g, running, a.facts); s && s->extent() < span->extent())
      span = s;
  if (const auto s = counted_span(a, dim, running); s && s->extent() < span->extent()) span = s;
  return span;
}

std::optional<Span> join(const Span& a, const Span& b) {
  const auto distance = as_int(simplify(b.base - a.base));
  if (!distance) return std::nullopt;
  const int64_t lo = std::min(a.lo, b.lo + *distance), hi = std::max(a.hi, b.hi + *distance);
  // A single element has no step of its own.
  const int64_t steps = std::gcd(a.extent() > 1 ? a.step : 0, b.extent() > 1 ? b.step : 0);
  return Span{a.base, lo, hi, std::max<int64_t>(1, std::gcd(steps, b.lo + *distance - a.lo))};
}

size_t common_loops(const Access& a, const Access& b) {
  size_t n = 0;
  while (n < a.loops.size() && n < b.loops.size() && a.loops[n] == b.loops[n]) ++n;
  return n;
}

bool is_dense(const Access& a, size_t dim, const std::vector<Var>& running, std::set<const VarNode*>& used) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // coefficient, largest value
  for (const auto& [atom, coefficient] : linear(a.indices[dim]).terms) {
    const auto* ref = atom.as<VarRef>();
    const bool runs =
        std::any_of(running.begin(), running.end(), [&](const Var& v) { return uses_var(atom, v); });
    if (!runs) continue;
    if (!ref || !used.insert(ref->var.get()).second) return false;
    const Interval range = a.facts.range(ref->var);
    if (range.lo != 0) return false;
    steps.emplace_back(std::abs(coefficient), range.hi);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [step, highest] : steps) {
    if (step > reach + 1) return false;
    reach += step * highest;
  }
  return true;
}

bool jumps(const Expr& index, const std::vector<Var>& running) {
  bool moves = false;
  for_each_expr(index, [&](const Expr& e) { moves = moves || (e.as<Load>() && mentions(e, running)); });
  return moves;
}

Expr readable_anywhere(const Expr& index, const PrimFunc& f, const Facts& facts) {
  if (!has_load(index)) return index;
  class Keeper : public Rewriter {
   public:
    Keeper(const PrimFunc& f, const Facts& facts) : f_(f), facts_(facts) {}
    bool known = true;

    Expr expr(const Expr& e) override {
      const Expr out = children(e);
      const auto* l = out.as<Load>();
      if (!l) return out;
      const Param* p = find_param(f_, l->buffer);
      known = known && p && p->role != Role::out;
      if (!known) return out;
      std::vector<Expr> indices = l->indices;
      for (size_t d = 0; d < indices.size(); ++d) {
        if (!can_prove(le(0, indices[d]), facts_)) indices[d] = max(indices[d], 0);
        if (!can_prove(lt(indices[d], p->decl.shape[d]), facts_))
          indices[d] = min(indices[d], p->decl.shape[d] - 1);
        indices[d] = simplify(indices[d], facts_);
      }
      return make::load(l->buffer, std::move(indices), l->mask);
    }

   private:
    const PrimFunc& f_;
    const Facts& facts_;
  };
  Keeper keeper(f, facts);
  const Expr out = keeper.expr(index);
  return keeper.known ? out : Expr();
}

}  // namespace nestor::passes
