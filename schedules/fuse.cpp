// fuse: directly nested loops become one, in the same order: i = f / J, j = f % J.
//
// Tails stay: lowering cuts the digits of the fused loop where it would have cut the loops. If the loops have
// different tails, a peeled tail has priority over a masked one.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

std::string legal_order(const std::vector<LoopRef>& loops) {
  std::vector<LoopRef> sorted = loops;
  std::sort(sorted.begin(), sorted.end(),
            [](const LoopRef& a, const LoopRef& b) { return a.depth < b.depth; });
  std::vector<std::string> names;
  for (const LoopRef& l : sorted) names.push_back(loop_name(l.stmt));
  return join(names, " ");
}

void check_nested(const StepContext& ctx, const std::vector<LoopRef>& loops) {
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    if (as_for(loops[i].stmt).body.same_as(loops[i + 1].stmt)) continue;
    const bool inverted = loops[i + 1].depth < loops[i].depth;
    ctx.refuse(1, 0,
               loop_name(loops[i + 1].stmt) + (inverted ? " is outside of " : " isn't directly inside ") +
                   loop_name(loops[i].stmt),
               {loops[i].stmt, loops[i + 1].stmt},
               inverted ? "fuse " + loops[0].place.name() + " (" + legal_order(loops) + ")"
                        : "loops are brought together by reorder");
  }
}

PrimFunc run(StepContext& ctx) {
  const std::vector<LoopRef> loops = ctx.loops(0);
  check_nested(ctx, loops);
  for (const LoopRef& l : loops) {
    const For& f = as_for(l.stmt);
    if (f.kind != ForKind::serial) ctx.refuse(2, 0, l.text() + " isn't serial", {l.stmt});
    if (!l.stmt.same_as(loops[0].stmt) && extent_of(l.stmt) == 0)
      ctx.refuse(3, 0, "the extent of " + l.text() + " is 0", {l.stmt});
    for (const LoopRef& around : loops)
      if (uses_var(f.extent, as_for(around.stmt).var))
        ctx.refuse(3, 0, "the extent of " + l.text() + " depends on " + loop_name(around.stmt),
                   {around.stmt, l.stmt});
  }
  for (const Place& p : places_under(ctx.func().body, loops.back().stmt)) {
    LoopUse all;
    for (const LoopRef& l : loops) {
      const LoopUse use = use_of(p.block(), as_for(l.stmt).var);
      all.spatial = all.spatial || use.spatial;
      all.reduce = all.reduce || use.reduce;
    }
    if (all.spatial && all.reduce)
      ctx.refuse(4, 0, "block " + p.name() + " has S and R iterators over these loops", {p.stmt}, "");
  }

  const LoopRef& outer = loops.front();
  std::set<std::string> taken = names_around(ctx.func(), outer.stmt);
  std::string base;
  for (const LoopRef& l : loops) {
    taken.erase(loop_name(l.stmt));
    base += loop_name(l.stmt);
  }
  ctx.expect_results(1);
  const Var fused = make_var(ctx.new_name(0, base, taken));
  VarMap map;
  Expr inner = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    const Expr size = as_for(loops[i].stmt).extent, quotient = Expr(fused) / inner;
    map[as_for(loops[i].stmt).var] = is_const_int(size, 1) ? Expr(0) : i == 0 ? quotient : quotient % size;
    if (i > 0) inner = inner * size;
  }
  const Expr extent = as_for(outer.stmt).extent * inner;
  Annotations annotations;
  for (const LoopRef& l : loops) {
    const Annotations& own = as_for(l.stmt).annotations;
    annotations.insert(own.begin(), own.end());
    const auto tail = own.find("tail");
    if (tail != own.end() && annotations.at("tail") == Annotation(std::string("mask")))
      annotations["tail"] = tail->second;
  }
  ctx.concerns_no_loop();  // for each of its iterations, loops inside run as for one of each
  const Stmt body = substitute(as_for(loops.back().stmt).body, map);
  const Stmt out = make::loop(fused, extent, body, ForKind::serial, ThreadTag::none, annotations);
  return replace(ctx.func(), outer.stmt, simplify_bindings(out, facts_at(outer.place)));
}

}  // namespace

Primitive fuse_row() {
  return {"fuse",
          "g",
          {{ArgKind::loops, "T (i j ...)"}},
          {},
          "Fuses directly nested loops into one, in the same order.",
          {"each loop is directly inside the one before it, with nothing beside it", "the loops are serial",
           "the extents of all loops but the outermost aren't 0, and none depends on another of the loops",
           "no block inside uses one of the loops for an S iterator and another for an R iterator"},
          {examples::kGrid, "g = fuse Y (i j)"},
          run,
          true};
}

}  // namespace nestor::schedules
