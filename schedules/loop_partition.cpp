// loop_partition: one loop becomes sibling loops over parts of its range, in the old order, so that a border
// or a ragged end can be scheduled apart from the bulk.
//
// The first part keeps the blocks; the others have copies, which remember whose copies they are. A part of a
// reduction where no instance has all R iterators at 0 has no init: the copy goes on from what the parts
// before it left. Nothing is moved, so nothing can go wrong: the parts run the old instances in the old
// order.
//
// Requires
//  1. the loop is serial: a kind is given to the loops that are left at the end;
//  2. its extent is a constant;
//  3. the cuts ascend, each inside of the range;
//  4. where the loop serves R iterators together with others (it was fused), all of them begin anew at each
//  cut.
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

// Where the parts begin and end: 0, the cuts, the extent.
std::vector<int64_t> read_bounds(const StepContext& ctx, const LoopRef& loop) {
  const int64_t extent = extent_of(loop.stmt);
  if (extent < 0)
    ctx.refuse(2, 0, "the extent of " + loop.text() + " isn't a constant", {loop.stmt},
               "split " + loop.text() + " [_, 16]");
  std::vector<int64_t> bounds{0};
  const std::string legal = extent > 1 ? ctx.instead(1, "[" + std::to_string(extent / 2) + "]") : "";
  for (const std::optional<int64_t>& cut : ctx.ints(1)) {
    if (!cut) ctx.refuse(3, 1, "`_` says not where to cut", {}, legal);
    if (*cut <= bounds.back() || *cut >= extent)
      ctx.refuse(3, 1,
                 "a cut at " + std::to_string(*cut) + " is not inside of " + std::to_string(bounds.back()) +
                     " .. " + std::to_string(extent),
                 {loop.stmt}, legal);
    bounds.push_back(*cut);
  }
  if (bounds.size() == 1) ctx.refuse(3, 1, "there is no cut", {}, legal);
  bounds.push_back(extent);
  return bounds;
}

// Makes reductions of a later part begin where their R iterators are 0, as every reduction does: an iterator
// that is never below `lo` there counts from it. Such a part has no init.
struct BeginAtZero : Rewriter {
  Facts facts;
  VarMap start;  // all loops at 0
  Stmt astray;   // a block where they don't come to be 0 together
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    if (const auto* l = s.as<For>()) {
      facts.set(l->var, range_of_loop(s));
      start[l->var] = Expr(0);
    }
    const auto* b = s.as<Block>();
    if (!b) return children(s);
    Block rest = *b;
    VarMap shifted;
    for (IterVar& i : rest.iters) {
      if (i.kind != IterKind::reduce) continue;
      const auto extent = as_int(i.extent);
      const int64_t lo = range_of(i.binding, facts).lo;
      if (lo > 0) rest.init = Stmt();
      if (lo > 0 && extent && lo < *extent) {
        i.binding = simplify(i.binding - Expr(lo), facts);
        i.extent = *extent - lo;
        shifted[i.var] = Expr(i.var) + Expr(lo);
      }
      if (!is_const_int(simplify(substitute(i.binding, start)), 0) && !(extent && lo >= *extent)) astray = s;
    }
    rest.body = substitute(rest.body, shifted);
    if (rest.where) rest.where = substitute(rest.where, shifted);
    return make::block(std::move(rest));
  }
};

// A later part, from `lo` on; nothing where its reductions don't begin there.
std::optional<Stmt> part_of(const LoopRef& loop, const Stmt& body, int64_t lo, int64_t hi) {
  const Var v = make_var(as_for(loop.stmt).var->name);
  const Stmt moved = substitute(body, VarMap{{as_for(loop.stmt).var, Expr(lo) + Expr(v)}});
  BeginAtZero begin;
  begin.facts = facts_at(loop.place);
  for (const Stmt& l : loop.place.loops()) begin.start[as_for(l).var] = Expr(0);
  const Stmt out = begin.stmt(with_extent(loop.stmt, v, hi - lo, moved));
  return begin.astray ? std::nullopt : std::optional(out);
}

// The cut nearest to the one refused where all reductions begin.
std::string legal_cut(const StepContext& ctx, const LoopRef& loop, int64_t refused) {
  const int64_t extent = extent_of(loop.stmt);
  for (int64_t away = 1; away < extent; ++away)
    for (const int64_t cut : {refused - away, refused + away})
      if (cut > 0 && cut < extent && part_of(loop, as_for(loop.stmt).body, cut, extent))
        return ctx.instead(1, "[" + std::to_string(cut) + "]");
  return "";
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const For& old = as_for(loop.stmt);
  if (old.kind != ForKind::serial)
    ctx.refuse(1, 0, loop.text() + " isn't serial any more", {loop.stmt},
               "a loop is cut before the step that gives it a kind");
  const std::vector<int64_t> bounds = read_bounds(ctx, loop);
  const size_t blocks = places(old.body).size();
  ctx.expect_results(blocks * (bounds.size() - 2));

  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  size_t result = 0;
  const auto name = [&](const std::string& of) { return ctx.new_name(result++, of + "_part", taken); };
  std::vector<Stmt> parts;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const Stmt body = i == 0 ? old.body : renamed_copy(old.body, name, taken);
    const auto part = i == 0 ? std::optional(with_extent(loop.stmt, old.var, bounds[1], body))
                             : part_of(loop, body, bounds[i], bounds[i + 1]);
    if (!part)
      ctx.refuse(4, 1, "at " + std::to_string(bounds[i]) + " not all of them begin", {loop.stmt},
                 legal_cut(ctx, loop, bounds[i]));
    parts.push_back(simplify_bindings(*part, facts_at(loop.place)));
  }
  return replace(ctx.func(), loop.stmt, make::seq(std::move(parts)));
}

}  // namespace

Primitive loop_partition_row() {
  return {
      "loop_partition",
      "T1 T2 ...",
      {{ArgKind::loop, "T.i"}, {ArgKind::ints, "[16, 48]"}},
      {},
      "One loop becomes sibling loops over parts of its range, the later ones with copies of the blocks.",
      {"the loop is serial", "its extent is a constant", "the cuts ascend, each inside of the loop's range",
       "where the loop serves R iterators together with others, all of them begin anew at each cut"},
      {examples::kMap, "Y1 = loop_partition Y.i [48]"},
      run};
}

}  // namespace nestor::schedules
