// prefetch: while an iteration of a loop runs, what a later one reads or writes of a buffer is prefetched.
// The step only annotates the loop. Lowering (insert_prefetches) makes the instructions, from what the blocks
// in the loop access by then: later steps may still split, copy and move. A prefetch changes only the time,
// and its addresses stay within the buffer.
#include <algorithm>
#include <utility>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/region.h"

namespace nestor::schedules {

namespace {

constexpr int64_t kPage = 4096;  // bytes, the least of any target

// What is asked for: what the block reads, or else writes, of the buffer.
std::vector<BlockAccess> wanted(const Place& p, const Buffer& b) {
  const bool read = reads(p.block(), b);
  std::vector<BlockAccess> out;
  for (const BlockAccess& a : accesses_at(p))
    if (a.buffer == b && (a.read || !read)) out.push_back(a);
  return out;
}

// Whether an index is read of inputs, and the same for all iterations of the loops that don't stand still.
bool is_gathered(const PrimFunc& f, const Place& p, const Expr& index, const std::vector<Stmt>& standing) {
  bool reads = false, only_inputs = true;
  for_each_expr(index, [&](const Expr& e) {
    const auto* l = e.as<Load>();
    const Param* param = l ? find_param(f, l->buffer) : nullptr;
    reads = reads || l;
    only_inputs = only_inputs && (!l || (param && param->role != Role::out));
  });
  for (const Stmt& l : p.loops())
    if (uses_var(index, as_for(l).var) &&
        std::none_of(standing.begin(), standing.end(), [&](const Stmt& s) { return s.same_as(l); }))
      return false;
  return reads && only_inputs;
}

// The loops whose iterations read different parts of the buffer, as steps to paste.
std::string legal_loops(const StepContext& ctx, const Place& p, const Buffer& b) {
  std::vector<std::string> lines;
  for (const Stmt& l : p.loops()) {
    bool moves = false;
    for (const BlockAccess& a : wanted(p, b))
      for (const Expr& e : a.indices) moves = moves || uses_var(e, as_for(l).var);
    const ForKind kind = as_for(l).kind;
    if (moves && kind != ForKind::vectorized && kind != ForKind::thread)
      lines.push_back(ctx.instead(0, p.name() + "." + loop_name(l)));
  }
  return join(lines, "\n");
}

// The outer loop says what is asked for, the inner one where: `j` by the block's own name, `B.j` by
// another's.
PrimFunc shared(const StepContext& ctx, const LoopRef& loop, const Buffer& b, int64_t distance,
                const std::string& name) {
  const size_t dot = name.find('.');
  const std::string prefix = dot == std::string::npos ? "" : name.substr(0, dot + 1);
  const auto other = dot == std::string::npos ? loop.place : find_place(ctx.func(), name.substr(0, dot));
  std::vector<std::string> legal;
  bool inside = false;
  for (const Stmt& inner : (other ? *other : loop.place).loops()) {
    const For& in = as_for(inner);
    const bool around = std::exchange(inside, inside || inner.same_as(loop.stmt));
    if (!around || in.kind != ForKind::serial) continue;
    Step step = ctx.step();
    for (auto& [key, value] : step.options)
      if (key == "shares") value = (other ? prefix : "") + loop_name(inner);
    legal.push_back(print(step));
    if (!other || prefix + loop_name(inner) != name) continue;
    Annotations annotations = in.annotations;
    annotations["shares of " + b->name] = ctx.choice("each") == "page" ? kPage : int64_t{1};
    const Stmt outer =
        replace(loop.stmt, inner, make::loop(in.var, in.extent, in.body, in.kind, in.thread, annotations));
    const For& out = as_for(outer);
    annotations = out.annotations;
    annotations["share " + b->name] = distance;
    return replace(ctx.func(), loop.stmt,
                   make::loop(out.var, out.extent, out.body, out.kind, out.thread, std::move(annotations)));
  }
  ctx.refuse(5, loc_of_option(ctx.step(), "shares"),
             "there is no serial loop `" + name + "` in " + loop.text(), {loop.stmt}, join(legal, "\n"));
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const Buffer b = ctx.buffer(1);
  const For& l = as_for(loop.stmt);
  const bool read = reads(loop.place.block(), b), write = writes(loop.place.block(), b);
  if (!read && !write) {
    std::vector<std::string> names;
    for (const Buffer& r : read_buffers(loop.place.block())) names.push_back(r->name);
    ctx.refuse(1, 1, loop.place.name() + " doesn't read " + b->name + ", or write it", {loop.place.stmt},
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
  for (const BlockAccess& a : wanted(loop.place, b)) {
    const auto region = region_of(loop.place, a, standing);
    for (size_t d = 0; d < region.size(); ++d) {
      const bool gathered = !region[d] && is_gathered(ctx.func(), loop.place, a.indices[d], standing);
      known = known && (region[d] || gathered);
      moves = moves || (region[d] && uses_var(to_expr(region[d]->base), l.var)) ||
              (gathered && uses_var(a.indices[d], l.var));
    }
  }
  if (!moves || !known)
    ctx.refuse(
        2, 0,
        known ? "each iteration of " + loop.text() + (read ? " reads" : " writes") + " the same of " + b->name
              : "the bounds of what it accesses of " + b->name + " aren't known",
        {loop.stmt, loop.place.stmt}, known ? legal_loops(ctx, loop.place, b) : "");
  const int64_t distance = ctx.int_option("distance").value_or(1);
  if (distance < 1)
    ctx.refuse(4, loc_of_option(ctx.step(), "distance"), "the distance is " + std::to_string(distance));
  if (const auto shares = ctx.option("shares")) return shared(ctx, loop, b, distance, *shares);
  if (ctx.choice("each") == "page")
    ctx.refuse(6, loc_of_option(ctx.step(), "each"), "there are no `shares`", {loop.stmt});
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
          {{"distance", "INT", "number of iterations ahead; by default 1"},
           {"shares", "LOOP",
            "a loop inside (or B.j, around another block) over whose iterations the prefetches are spread; "
            "by default all are issued at once"},
           {"each", "line|page",
            "`page` prefetches one line of each page, for its TLB entry, where there are more pages than TLB "
            "entries"}},
          "Prefetches what a later iteration of a loop reads or writes of a buffer.",
          {"the block reads or writes the buffer, which is in global memory",
           "the region that it accesses moves with the loop and has known bounds, or begins at an index from "
           "an input",
           "the loop is serial, parallel or unrolled", "the distance is at least 1",
           "the loop of shares= is serial, inside of the loop, and around the block or the other block that "
           "is named with it",
           "each=page needs shares="},
          {examples::kMatmul, "reorder Y (i k j)\nprefetch Y.k B distance=4"},
          run};
}

}  // namespace nestor::schedules
