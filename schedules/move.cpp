#include "schedules/move.h"

#include <algorithm>

namespace nestor::schedules {

IterSpan whole(const IterVar& i) {
  return {Expr(0), i.extent};
}

namespace {

Linear size_of(const Bound& b) {
  return add(b.last(), number(1 - b.lo));
}

}  // namespace

IterSpan span_of(const Bound& b, const IterVar& i) {
  if (surely_le(linear_of(i.extent), size_of(b))) return whole(i);
  return exact_span_of(b, i);
}

IterSpan exact_span_of(const Bound& b, const IterVar& i) {
  const auto domain = as_int(i.extent);
  if (b.base.is_constant() && is_zero(b.span) && domain) {
    // no more than the domain, so that no iteration is wasted
    const int64_t lo = std::max<int64_t>(0, b.base.constant + b.lo);
    const int64_t hi = std::min(*domain - 1, b.base.constant + b.hi);
    return {Expr(lo), Expr(std::max<int64_t>(hi - lo + 1, 0))};
  }
  if (b.base.is_constant() && b.base.constant + b.lo <= 0 &&
      surely_le(linear_of(i.extent), add(add(b.base, b.last()), number(1))))
    return whole(i);
  Linear base = b.base;
  base.constant += b.lo;
  return {to_expr(base), to_expr(size_of(b))};
}

size_t count_spatial(const Block& b) {
  size_t n = 0;
  for (const IterVar& i : b.iters) n += i.kind == IterKind::spatial && !is_guard(b, i);
  return n;
}

Stmt rebuild(const StepContext& ctx, const Place& p, const std::vector<IterSpan>& spans, const Stmt& loop,
             std::vector<IterVar> guards) {
  const Block& old = p.block();
  std::set<std::string> taken;
  std::vector<Var> around;  // loops
  const PrimFunc& f = ctx.func();
  // Names on the way to the loop's body; what is beside the new nest doesn't matter.
  std::vector<Stmt> path = path_to(f.body, loop);
  path.push_back(loop);
  for (const Stmt& s : path)
    if (s.as<For>()) {
      taken.insert(loop_name(s));
      around.push_back(as_for(s).var);
    }
  for (const Var& d : f.dims) taken.insert(d->name);
  for (const IterVar& i : old.iters) taken.insert(i.var->name);

  Block moved = old;
  moved.iters.clear();
  std::vector<NewLoop> spatial, reduce;
  VarMap loops;  // new ones, by iterators
  size_t result = 0;
  for (size_t k = 0; k < old.iters.size(); ++k) {
    IterVar i = old.iters[k];
    if (is_guard(old, i)) {
      // Where it doesn't run because of loops that stay around it, what it reads may not be there.
      const std::vector<Var> of = vars_of(i.binding);
      const bool stays = std::all_of(of.begin(), of.end(), [&](const Var& v) {
        return std::find(around.begin(), around.end(), v) != around.end();
      });
      const bool known = std::any_of(guards.begin(), guards.end(), [&](const IterVar& g) {
        return same_expr(g.binding, i.binding) && same_expr(g.extent, i.extent);
      });
      if (stays && !known && !of.empty()) guards.push_back(i);
      continue;
    }
    const std::string stem = loop_stem(i.var->name);
    const bool s = i.kind == IterKind::spatial;
    const Var v = make_var(s ? ctx.new_name(result++, stem, taken) : unique_name(stem, taken));
    taken.insert(v->name);
    (s ? spatial : reduce).push_back({v, spans[k].extent});
    loops[i.var] = Expr(v);
    i.binding = spans[k].base + Expr(v);
    moved.iters.push_back(std::move(i));
  }
  for (IterVar g : guards) {
    g.var = make_var(unique_name(g.var->name, taken));
    taken.insert(g.var->name);
    g.binding = substitute(g.binding, loops);
    moved.iters.push_back(std::move(g));
  }
  spatial.insert(spatial.end(), reduce.begin(), reduce.end());
  return nest(spatial, make::block(std::move(moved)));
}

void check_visible(const StepContext& ctx, int requirement, const Place& p, const LoopRef& loop) {
  std::vector<Stmt> inside(loop.place.path.begin(),
                           loop.place.path.begin() + static_cast<std::ptrdiff_t>(loop.depth) + 1);
  // Allocations directly in the loop's body are entered by insert_before and insert_after.
  for (size_t i = loop.depth + 1; i < loop.place.path.size() && loop.place.path[i].as<Alloc>(); ++i)
    inside.push_back(loop.place.path[i]);
  const Buffer out = inspect(p.block()).out;
  const int out_depth = declared_at(ctx.func(), p.path, out).value_or(-1);
  for (const BlockAccess& a : accesses_of(p.block())) {
    if (!declared_at(ctx.func(), inside, a.buffer))
      ctx.refuse(requirement, 1, a.buffer->name + " is not declared around " + loop.text(),
                 {p.stmt, loop.stmt});
    const int depth = declared_at(ctx.func(), p.path, a.buffer).value_or(-1);
    if (depth > out_depth)
      ctx.refuse(requirement, 1, a.buffer->name + " doesn't live as long as " + out->name,
                 {p.stmt, loop.stmt});
  }
}

std::vector<IterVar> standing_guards(const Place& q, const Stmt& loop, const VarMap& steps) {
  std::vector<IterVar> out;
  const std::vector<Stmt> loops = q.loops();
  for (IterVar i : q.block().iters) {
    if (!is_guard(q.block(), i)) continue;
    const bool stands = std::all_of(loops.begin(), loops.end(), [&](const Stmt& l) {
      return q.depth_of(l) <= q.depth_of(loop) || !uses_var(i.binding, as_for(l).var) ||
             steps.count(as_for(l).var) > 0;
    });
    i.binding = substitute(i.binding, steps);
    if (stands) out.push_back(std::move(i));
  }
  return out;
}

size_t order_of(const std::vector<Place>& all, const Stmt& block) {
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].stmt.same_as(block)) return i;
  return all.size();
}

namespace {

bool holds_any(const Stmt& s, const std::vector<Stmt>& others) {
  return std::any_of(others.begin(), others.end(), [&](const Stmt& o) { return contains(s, o); });
}

}  // namespace

Stmt insert_before(const Stmt& body, const std::vector<Stmt>& others, const Stmt& added) {
  if (const auto* a = body.as<Alloc>()) return with_body(body, insert_before(a->body, others, added));
  std::vector<Stmt> out;
  bool done = false;
  const auto* q = body.as<Seq>();
  for (const Stmt& s : q ? q->stmts : std::vector<Stmt>{body}) {
    if (!done && holds_any(s, others)) {
      out.push_back(added);
      done = true;
    }
    out.push_back(s);
  }
  return make::seq(std::move(out));
}

Stmt insert_after(const Stmt& body, const std::vector<Stmt>& others, const Stmt& added) {
  if (const auto* a = body.as<Alloc>()) return with_body(body, insert_after(a->body, others, added));
  const auto* q = body.as<Seq>();
  std::vector<Stmt> out = q ? q->stmts : std::vector<Stmt>{body};
  size_t last = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (holds_any(out[i], others)) last = i + 1;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(last), added);
  return make::seq(std::move(out));
}

Stmt loop_with(const PrimFunc& f, const Var& v) {
  struct Finder : Walker {
    const Var& var;
    Stmt found;
    explicit Finder(const Var& v) : var(v) {}
    void expr(const Expr&) override {}
    void stmt(const Stmt& s) override {
      if (found || s.as<Store>() || s.as<Update>() || s.as<Evaluate>()) return;
      const auto* l = s.as<For>();
      if (l && l->var == var)
        found = s;
      else
        children(s);
    }
  } finder(v);
  finder.stmt(f.body);
  return std::move(finder.found);
}

PrimFunc declare_beside(PrimFunc f, const Buffer& b, const BufferDecl& decl) {
  Stmt at;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>(); a && a->decl.buffer == b) at = s;
  });
  if (at) return replace(f, at, make::alloc(decl, at));
  f.allocs.push_back(decl);
  return f;
}

}  // namespace nestor::schedules
