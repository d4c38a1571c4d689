// vectorize: iterations of a loop become lanes. Lowering cuts any extent into native vectors and one masked
// remainder. A GPU's thread has no vector arithmetic and does all iterations; but loads and stores of
// neighbouring elements are combined where their alignment is known (passes/split_lanes.cpp).
#include "schedules/examples.h"
#include "schedules/independence.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

std::string conflict_hint(const StepContext& ctx, const LoopRef& loop, const Conflict& conflict);

namespace {

// Whether lowering leaves a guard that moves with the loop: tails that are masked stay in it.
bool has_guard(const LoopRef& loop) {
  const Facts facts = facts_at(loop.place);
  for (const IterVar& i : loop.place.block().iters) {
    if (!uses_var(i.binding, as_for(loop.stmt).var)) continue;
    if (!can_prove(le(0, i.binding), facts)) return true;
    if (can_prove(lt(i.binding, i.extent), facts)) continue;
    bool cut = false;  // into whole tiles and a rest
    for (const Stmt& l : loop.place.loops()) {
      const auto tail = as_for(l).annotations.find("tail");
      cut |= tail != as_for(l).annotations.end() && uses_var(i.binding, as_for(l).var) &&
             tail->second != Annotation(std::string("mask"));
    }
    if (!cut) return true;
  }
  return false;
}

// For the innermost loop of a reduction that has its init still.
std::string way_out(const LoopRef& loop) {
  const auto* block = as_for(loop.stmt).body.as<Block>();
  if (!block || !block->init || !own_use_of(*block, as_for(loop.stmt).var).reduce) return "";
  return "; after `decompose_reduction " + loop.text() + "` each lane can have a partial result";
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const For& old = as_for(loop.stmt);
  if (old.kind != ForKind::serial) ctx.refuse(1, 0, loop.text() + " has a kind already", {loop.stmt});
  for (const auto& [key, value] : old.annotations)
    if (key.starts_with("prefetch ") || key.starts_with("share ") || key.starts_with("shares of "))
      ctx.refuse(1, 0, loop.text() + " prefetches in each iteration", {loop.stmt});
  for (size_t i = 0; i < loop.depth; ++i)
    if (const auto* l = loop.place.path[i].as<For>(); l && l->kind == ForKind::vectorized)
      ctx.refuse(3, 0, "it is inside the vectorized loop " + l->var->name, {loop.place.path[i], loop.stmt});
  const auto* row = old.body.as<For>();
  const bool folds = row && row->kind == ForKind::vectorized && reduces_lanes(*row);
  if (folds && has_guard(loop))
    ctx.refuse(3, 0,
               "there is a guard of its iterations between it and the vectorized loop " + row->var->name,
               {loop.stmt});
  for_each_stmt(old.body, [&](const Stmt& s) {
    const auto* l = s.as<For>();
    if (l == row && folds) return;
    if (l && l->kind != ForKind::serial && l->kind != ForKind::unrolled)
      ctx.refuse(3, 0, "the loop " + l->var->name + " inside has a kind already", {loop.stmt, s});
    if (const auto* b = s.as<Block>(); b && b->annotations.count("tensorize"))
      ctx.refuse(3, 0, "block " + b->id->name + " inside is a hardware instruction already", {loop.stmt, s});
    if (const auto* a = s.as<Alloc>())
      ctx.refuse(4, 0, a->decl.buffer->name + " is allocated inside, for each iteration", {loop.stmt, s});
    if (l && uses_var(l->extent, old.var))
      ctx.refuse(4, 0, "the extent of the loop " + l->var->name + " inside depends on it", {loop.stmt, s});
  });
  const auto conflict = reduces_lanes(old) ? std::nullopt : find_conflict(ctx.func(), loop.stmt);
  if (conflict)
    ctx.forbid(2, 0, conflict->why + way_out(loop), conflict->blocks, conflict_hint(ctx, loop, *conflict));
  const Stmt made =
      make::loop(old.var, old.extent, old.body, ForKind::vectorized, ThreadTag::none, old.annotations);
  if (!conflict) ctx.proved(made);
  return replace(ctx.func(), loop.stmt, made);
}

}  // namespace

Primitive vectorize_row() {
  return {"vectorize",
          "",
          {{ArgKind::loop, "T.i"}},
          {},
          "Turns the iterations of a loop into lanes of vectors. On CUDA one thread does them all; loads and "
          "stores "
          "of neighbours that make up 4, 8 or 16 aligned bytes become one access.",
          {"the loop is serial",
           semantic("no two iterations access the same element if one of them writes it, unless the loop has "
                    "nothing but one decomposed reduction"),
           "it isn't inside a vectorized loop, and no vectorized, parallel or thread loop and no tensorized "
           "block is inside; one vectorized reduction alone is allowed",
           "no buffer is allocated in it, and no extent in it depends on it"},
          {examples::kGrid, "vectorize Y.j"},
          run,
          true};
}

}  // namespace nestor::schedules
