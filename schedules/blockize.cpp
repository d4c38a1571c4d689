// blockize: a loop and all inside of it, down to a block, become the body of an outer block, whose iterations
// are whole tiles. Then the tile moves as a unit: the loops around it belong to the outer block, and those
// inside are named through the inner block.
//
// Each iterator v of the inner block is divided at the loop: v = w*n + r. Here n is the range of the inner
// loops, and w is the index of the tile: an iterator of the outer block, of the same kind. That requires that
// the inner loops cover r without gaps and the outer loops move by n. The last tile may be partial: what is
// outside of the inner block's domain doesn't run.
#include <algorithm>

#include "nestor/print.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

struct Sides {
  Linear outer, inner;
  bool mixed = false;  // an atom, such as a quotient, is about both
};

Sides take_apart(const Expr& binding, const std::vector<Stmt>& inside) {
  Sides s;
  const Linear all = linear_of(binding);
  s.outer.constant = all.constant;
  for (const Term& t : all.terms) {
    bool in = false, out = false;
    for (const Var& v : vars_of(t.atom)) {
      const bool is_inner =
          std::any_of(inside.begin(), inside.end(), [&](const Stmt& l) { return as_for(l).var == v; });
      (is_inner ? in : out) = true;
    }
    s.mixed = s.mixed || (in && out);
    (in ? s.inner : s.outer).terms.push_back(t);
  }
  return s;
}

// The number of values if the inner part takes 0 .. n-1, each of them.
std::optional<int64_t> size_of_tile(const Linear& inner, const std::vector<Stmt>& inside) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // coefficient, extent
  for (const Term& t : inner.terms) {
    const auto* v = t.atom.as<VarRef>();
    if (!v || t.coefficient <= 0) return std::nullopt;
    for (const Stmt& l : inside)
      if (as_for(l).var == v->var) steps.emplace_back(t.coefficient, extent_of(l));
  }
  std::sort(steps.begin(), steps.end());
  int64_t reached = 1;
  for (const auto& [coefficient, extent] : steps) {
    if (coefficient > reached) return std::nullopt;
    reached += coefficient * (extent - 1);
  }
  return reached;
}

// The outer part divided by n, where it divides.
std::optional<Expr> divided(const Linear& outer, int64_t n) {
  Linear out;
  if (outer.constant % n) return std::nullopt;
  out.constant = outer.constant / n;
  for (const Term& t : outer.terms) {
    if (t.coefficient % n) return std::nullopt;
    out.terms.push_back({t.atom, t.coefficient / n});
  }
  return to_expr(out);
}

void check_nest(const StepContext& ctx, const LoopRef& loop) {
  const Place& p = loop.place;
  for (size_t i = loop.depth; i < p.path.size(); ++i) {
    if (!p.path[i].as<For>())
      ctx.refuse(1, 0, "something other than loops is between the loop and " + p.name(), {p.path[i], p.stmt});
    if (extent_of(p.path[i]) < 0)
      ctx.refuse(1, 0, "the extent of " + loop_name(p.path[i]) + " isn't a constant", {p.path[i]});
  }
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const Place& p = loop.place;
  check_nest(ctx, loop);
  ctx.expect_results(1);
  std::set<std::string> names = block_and_buffer_names(ctx.func());
  Block outer;
  outer.id = make_block_id(ctx.new_name(0, p.name() + "_o", names));

  const std::vector<Stmt> inside(p.path.begin() + static_cast<std::ptrdiff_t>(loop.depth), p.path.end());
  std::set<std::string> taken = names_around(ctx.func(), loop.stmt);
  for (const Stmt& l : p.loops()) taken.insert(loop_name(l));
  Block inner = p.own();
  std::vector<IterVar> kept;
  for (IterVar i : inner.iters) {
    const Sides s = take_apart(i.binding, inside);
    const auto bad = [&](const std::string& why) {
      ctx.refuse(2, 0, i.var->name + " = " + print(i.binding) + " " + why, {p.stmt},
                 "split so that the tiles divide; pad_einsum " + p.name() + " brings a size to a multiple");
    };
    if (s.mixed) bad("mixes loops outside and inside");
    if (s.outer.terms.empty() && s.outer.constant == 0) {
      kept.push_back(i);
      continue;
    }
    const bool guard = is_guard(inner, i);
    if (guard && !s.inner.terms.empty()) bad("is a guard over loops outside and inside");
    const auto n = size_of_tile(s.inner, inside);
    if (!n) bad("isn't covered without gaps by the loops inside");
    const auto index = divided(s.outer, *n);
    const auto domain = as_int(i.extent);
    if (!index || (*n > 1 && !domain))
      bad("isn't the index of a tile of " + std::to_string(*n) + " in " + print(i.extent));
    const Var w = make_var(unique_name(i.var->name + "_o", taken));
    taken.insert(w->name);
    outer.iters.push_back({w, i.kind, *n > 1 ? Expr(ceil_div(*domain, *n)) : i.extent, *index});
    if (guard) continue;
    i.binding = Expr(w) * Expr(*n) + to_expr(s.inner);
    kept.push_back(i);
  }
  inner.iters = std::move(kept);
  outer.body = replace(loop.stmt, p.stmt, make::block(std::move(inner)));
  return replace(ctx.func(), loop.stmt, make::block(std::move(outer)));
}

}  // namespace

Primitive blockize_row() {
  return {"blockize",
          "T_o",
          {{ArgKind::loop, "T.i"}},
          {},
          "Turns a loop and all inside of it into one block, a tile, which moves as a unit.",
          {"between the loop and the block there are only loops of constant extents",
           "each iterator is the tile's index times its size plus the inner loops, and no guard depends on "
           "both outer and inner loops"},
          {examples::kMap, "i0 i1 = split Y.i [10, 10]\nO = blockize Y.i1\nparallel O.i0"},
          run,
          true};
}

}  // namespace nestor::schedules
