// prefetch: while an iteration of a loop runs, what a later one will read of a buffer is asked for. The loop
// carries the wish as an annotation; lowering (insert_prefetches) makes the instructions of it, from what the
// blocks under the loop read by then: later steps may still split, copy and move. A prefetch changes nothing
// but the time, and its addresses stay inside of the buffer.
//
// Requires
//  1. the block reads the buffer, which lies in global memory;
//  2. what it reads moves with the loop, between bounds that are known;
//  3. the loop is serial, parallel or unrolled;
//  4. the distance is at least 1.
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

// The loops whose iterations read different parts of the buffer, as steps to paste.
std::string legal_loops(const StepContext& ctx, const Place& p, const Buffer& b) {
  std::vector<std::string> lines;
  for (const Stmt& l : p.loops()) {
    bool moves = false;
    for (const BlockAccess& a : accesses_at(p))
      if (a.read && a.buffer == b)
        for (const Expr& e : a.indices) moves = moves || uses_var(e, as_for(l).var);
    const ForKind kind = as_for(l).kind;
    if (moves && kind != ForKind::vectorized && kind != ForKind::thread)
      lines.push_back(ctx.instead(0, p.name() + "." + loop_name(l)));
  }
  return join(lines, "\n");
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const Buffer b = ctx.buffer(1);
  const For& l = as_for(loop.stmt);
  if (!reads(loop.place.block(), b)) {
    std::vector<std::string> names;
    for (const Buffer& r : read_buffers(loop.place.block())) names.push_back(r->name);
    ctx.refuse(1, 1, loop.place.name() + " doesn't read " + b->name, {loop.place.stmt},
               "it reads " + join(names, ", "));
  }
  if (const Scope scope = decl_of(ctx.func(), b).scope; scope != Scope::global)
    ctx.refuse(1, 1, b->name + " is " + name_of(scope));
  if (l.kind == ForKind::vectorized || l.kind == ForKind::thread)
    ctx.refuse(3, 0, loop.text() + (l.kind == ForKind::thread ? " is bound to threads" : " is vectorized"),
               {loop.stmt}, legal_loops(ctx, loop.place, b));
  std::vector<Stmt> standing;
  for (const Stmt& outer : loop.place.loops())
    if (loop.place.depth_of(outer) <= loop.depth) standing.push_back(outer);
  bool moves = false, known = true;
  for (const BlockAccess& a : accesses_at(loop.place)) {
    if (!a.read || a.buffer != b) continue;
    for (const auto& d : region_of(loop.place, a, standing)) {
      known = known && d;
      moves = moves || (d && uses_var(to_expr(d->base), l.var));
    }
  }
  if (!moves || !known)
    ctx.refuse(2, 0,
               known ? "each iteration of " + loop.text() + " reads the same of " + b->name
                     : "the bounds of what it reads of " + b->name + " aren't known",
               {loop.stmt, loop.place.stmt}, known ? legal_loops(ctx, loop.place, b) : "");
  const int64_t distance = ctx.int_option("distance").value_or(1);
  if (distance < 1)
    ctx.refuse(4, loc_of_option(ctx.step(), "distance"), "the distance is " + std::to_string(distance));
  Annotations annotations = l.annotations;
  annotations["prefetch " + b->name] = distance;
  return replace(ctx.func(), loop.stmt,
                 make::loop(l.var, l.extent, l.body, l.kind, l.thread, std::move(annotations)));
}

}  // namespace

Primitive prefetch_row() {
  return {"prefetch",
          "",
          {{ArgKind::loop, "T.k"}, {ArgKind::buffer, "X"}},
          {{"distance", "INT", "how many iterations ahead; 1 where left out"}},
          "While an iteration of a loop runs, what a later one reads of a buffer is asked for.",
          {"the block reads the buffer, which lies in global memory",
           "what it reads moves with the loop, between bounds that are known",
           "the loop is serial, parallel or unrolled", "the distance is at least 1"},
          {examples::kMatmul, "reorder Y (i k j)\nprefetch Y.k B distance=4"},
          run};
}

}  // namespace nestor::schedules
