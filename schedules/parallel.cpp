// parallel: runs the iterations of a loop on several threads, in no order.
//
// A temporary that iterations share only because it was allocated for the whole function becomes private to
// each iteration: its allocation moves into the loop (make_independent).
#include "schedules/examples.h"
#include "schedules/move.h"
#include "schedules/primitive.h"
#include "schedules/privatize.h"

namespace nestor::schedules {

// Also used by vectorize and bind: a hint that fits the conflict.
std::string conflict_hint(const StepContext& ctx, const LoopRef& loop, const Conflict& conflict) {
  const LoopUse use = use_of(loop.place.block(), as_for(loop.stmt).var);
  if (!use.reduce)
    return "choose a loop of an S iterator of every block below, or move " + conflict.buffer->name +
           "'s block out";
  std::vector<std::string> steps;
  for (const Stmt& l : loop.place.loops()) {
    const LoopUse other = use_of(loop.place.block(), as_for(l).var);
    if (other.spatial && !other.reduce && extent_of(l) != 1)
      steps.push_back(ctx.instead(0, loop.place.name() + "." + loop_name(l)));
  }
  return steps.empty() ? "no loop of this block is free of the reduction" : join(steps, "\n");
}

namespace {

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const For& old = as_for(loop.stmt);
  if (old.kind != ForKind::serial) ctx.refuse(1, 0, loop.text() + " has a kind already", {loop.stmt});
  for (size_t i = 0; i < loop.depth; ++i)
    if (const auto* l = loop.place.path[i].as<For>();
        l && (l->kind == ForKind::vectorized || l->kind == ForKind::thread))
      ctx.refuse(3, 0, "it is inside " + l->var->name, {loop.place.path[i], loop.stmt});
  PrimFunc out = ctx.func();
  const auto conflict = make_independent(out, old.var, true);
  if (conflict) ctx.forbid(2, 0, conflict->why, conflict->blocks, conflict_hint(ctx, loop, *conflict));
  const Stmt now = loop_with(out, old.var);
  const Stmt made =
      make::loop(old.var, old.extent, as_for(now).body, ForKind::parallel, ThreadTag::none, old.annotations);
  if (!conflict) ctx.proved(made);
  return replace(out, now, made);
}

}  // namespace

Primitive parallel_row() {
  return {
      "parallel",
      "",
      {{ArgKind::loop, "T.i"}},
      {},
      "Distributes the iterations of a loop over threads, in no particular order.",
      {"the loop is serial", semantic("no two iterations access the same element if one of them writes it"),
       "the loop isn't inside a vectorized or thread loop"},
      {examples::kGrid, "parallel Y.i"},
      run,
      true};
}

}  // namespace nestor::schedules
