// reorder: loops around one block change places. Loops that aren't named keep theirs.
//
// Only the loops' headers move, so what must hold is about the order of one block's instances. A map's
// instances can run in any order. A reduction's too, up to rounding (this step is where reassociation is
// allowed), as long as the instance with all R iterators 0, before which the init runs, still comes first for
// each element.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/witness.h"

namespace nestor::schedules {

// Loops from `first` to `last` of p's path, with nothing but loops between; none if there is something else.
std::optional<std::vector<Stmt>> loops_between(const Place& p, size_t first, size_t last) {
  std::vector<Stmt> out;
  for (size_t i = first; i <= last; ++i) {
    if (!p.path[i].as<For>()) return std::nullopt;
    out.push_back(p.path[i]);
  }
  return out;
}

namespace {

// A legal step: the loops that stand directly around and inside this one, in the inverse order.
std::string free_loops(const Place& p, size_t depth) {
  size_t first = depth, last = depth;
  while (first > 0 && p.path[first - 1].as<For>()) --first;
  while (last + 1 < p.path.size() && p.path[last + 1].as<For>()) ++last;
  std::vector<std::string> names;
  for (size_t i = first; i <= last; ++i) names.push_back(loop_name(p.path[i]));
  return names.size() < 2 ? ""
                          : "reorder " + p.name() + " (" + join({names.rbegin(), names.rend()}, " ") + ")";
}

void check_block(const StepContext& ctx, const Place& p, const std::vector<Stmt>& moving) {
  const BlockInfo info = inspect(p.block());
  if (info.kind == BlockKind::other) ctx.forbid(2, 0, info.why, {p.stmt});
  if (info.kind != BlockKind::reduction) return;
  for (const Stmt& l : moving) {
    const LoopUse use = use_of(p.block(), as_for(l).var);
    if (use.spatial && use.reduce)
      ctx.forbid(3, 0, loop_name(l) + " serves S and R iterators of " + p.name(), {l, p.stmt});
  }
  for (const IterVar& i : p.block().iters)
    if (p.block().init && i.kind == IterKind::reduce && (!begins_at_zero(p, i) || begins_below_zero(p, i)))
      ctx.forbid(3, 0,
                 i.var->name + " isn't 0 where the loops begin: another instance may come before the init",
                 {p.stmt});
  if (!distinct_instances(p, moving))
    ctx.forbid(3, 0,
               "an instance of " + p.name() + " may run twice in these loops" + repetition_of(p, moving),
               {p.stmt});
}

PrimFunc run(StepContext& ctx) {
  const std::vector<LoopRef> loops = ctx.loops(0);
  const Place& p = loops[0].place;
  std::vector<size_t> positions;
  for (const LoopRef& l : loops) positions.push_back(l.depth);
  std::sort(positions.begin(), positions.end());
  const auto between = loops_between(p, positions.front(), positions.back());
  if (!between) {
    std::vector<Stmt> marked;
    for (const LoopRef& l : loops) marked.push_back(l.stmt);
    ctx.refuse(1, 0, "there are other statements between these loops", marked,
               free_loops(p, positions.back()));
  }
  for (const Place& other : places(p.path[positions.front()]))
    if (!other.under(p.stmt))
      ctx.forbid(6, 0, "block " + other.name() + " is below these loops too", {other.stmt},
                 free_loops(p, positions.back()));
  for (const Stmt& l : *between)
    if (as_for(l).kind != ForKind::serial && as_for(l).kind != ForKind::unrolled)
      ctx.refuse(5, 0, loop_name(l) + " is neither serial nor unrolled", {l},
                 "loops are reordered before the step that gives them kinds");
  // A block that holds another is that one's tile: its instances may run in another order if the inner one's
  // may.
  std::vector<Place> leaves;
  for (Place& q : places_under(ctx.func().body, p.stmt))
    if (!holds_blocks(q.own())) leaves.push_back(std::move(q));
  if (leaves.size() > 1) ctx.forbid(2, 0, p.name() + " holds several blocks", {p.stmt});
  for (const Place& q : leaves) check_block(ctx, q, *between);

  std::vector<Stmt> order = *between;
  for (size_t i = 0; i < loops.size(); ++i) order[positions[i] - positions.front()] = loops[i].stmt;
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i; j < order.size(); ++j)
      if (uses_var(as_for(order[i]).extent, as_for(order[j]).var))
        ctx.refuse(4, 0, "the extent of " + loop_name(order[i]) + " is written with " + loop_name(order[j]),
                   {order[i], order[j]});
  Stmt body = as_for(between->back()).body;
  for (size_t i = order.size(); i-- > 0;) body = with_body(order[i], std::move(body));
  return replace(ctx.func(), between->front(), body);
}

}  // namespace

Primitive reorder_row() {
  return {"reorder",
          "",
          {{ArgKind::loops, "T (j i ...)"}},
          {},
          "Changes the order of loops around one block; loops that aren't named keep their places.",
          {"the loops are directly nested", semantic("the block is a map or a reduction"),
           semantic("for a reduction, the init stays before all terms, no loop is used by both S and R "
                    "iterators, and no iteration of the block runs twice"),
           "no loop's extent depends on a loop that would be inside of it",
           "the loops are serial or unrolled", semantic("no other block is inside the loops")},
          {examples::kMatmul, "reorder Y (i k j)"},
          run,
          true};
}

}  // namespace nestor::schedules
