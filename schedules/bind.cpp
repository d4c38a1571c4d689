// bind: runs the iterations of a loop on the blocks or threads of a GPU.
#include <array>

#include "schedules/examples.h"
#include "schedules/move.h"
#include "schedules/primitive.h"
#include "schedules/privatize.h"

namespace nestor::schedules {

std::string conflict_hint(const StepContext& ctx, const LoopRef& loop, const Conflict& conflict);

namespace {

bool is_block_tag(ThreadTag t) {
  return t >= ThreadTag::block_x && t <= ThreadTag::block_z;
}
bool is_thread_tag(ThreadTag t) {
  return t >= ThreadTag::thread_x && t <= ThreadTag::thread_z;
}

ThreadTag read_tag(const StepContext& ctx) {
  std::vector<std::string> names;
  for (int i = static_cast<int>(ThreadTag::block_x); i <= static_cast<int>(ThreadTag::vthread); ++i) {
    const ThreadTag tag = static_cast<ThreadTag>(i);
    if (ctx.word(1) == name_of(tag)) return tag;
    names.emplace_back(name_of(tag));
  }
  ctx.refuse(1, 1, "`" + ctx.word(1) + "` isn't a thread tag", {}, "one of " + nearest(ctx.word(1), names));
}

void check_neighbours(const StepContext& ctx, const LoopRef& loop, ThreadTag tag) {
  const auto check = [&](const Stmt& s, bool outside) {
    const For& l = as_for(s);
    const std::string where = outside ? "around" : "inside";
    if (outside && (l.kind == ForKind::vectorized || l.kind == ForKind::parallel))
      ctx.refuse(3, 0, l.var->name + " around it is vectorized or parallel", {s, loop.stmt});
    if (l.kind != ForKind::thread) return;
    if (l.thread == tag && tag != ThreadTag::vthread)
      ctx.refuse(3, 1, std::string(name_of(tag)) + " is bound to " + l.var->name + " " + where + " it",
                 {s, loop.stmt});
    if (outside ? is_thread_tag(l.thread) && is_block_tag(tag) : is_block_tag(l.thread) && is_thread_tag(tag))
      ctx.refuse(3, 1, std::string(name_of(l.thread)) + " is bound " + where + " it", {s, loop.stmt});
  };
  for (size_t i = 0; i < loop.depth; ++i)
    if (loop.place.path[i].as<For>()) check(loop.place.path[i], true);
  for_each_stmt(as_for(loop.stmt).body, [&](const Stmt& s) {
    if (s.as<For>()) check(s, false);
  });
}

// Loops around that can't be bound themselves: blocks inside would have to wait between their iterations.
void check_passed_values(const StepContext& ctx, const LoopRef& loop) {
  for (size_t i = 0; i < loop.depth; ++i) {
    const auto* around = loop.place.path[i].as<For>();
    if (!around || around->kind != ForKind::serial) continue;
    PrimFunc bound = ctx.func();
    if (const auto conflict = make_independent(bound, around->var, true))
      ctx.refuse(3, 1,
                 "blocks can't wait for each other, and the loop " + around->var->name +
                     " around passes values from one iteration to another: " + conflict->why,
                 {loop.place.path[i], loop.stmt}, ctx.instead(1, "threadIdx.x"));
  }
}

void check_thread_count(const StepContext& ctx, const LoopRef& loop) {
  for (const Place& p : places_under(ctx.func().body, loop.stmt)) {
    int64_t threads = extent_of(loop.stmt);
    for (const Stmt& l : p.loops())
      if (is_thread_tag(as_for(l).thread)) threads *= extent_of(l);
    if (threads > 1024)
      ctx.refuse(
          4, 0, "block " + p.name() + " would have " + std::to_string(threads) + " threads", {loop.stmt},
          loop_name(loop.stmt) + "0 " + loop_name(loop.stmt) + "1 = split " + loop.text() + " [_, 32]");
  }
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const For& old = as_for(loop.stmt);
  const ThreadTag tag = read_tag(ctx);
  if (old.kind != ForKind::serial) ctx.refuse(1, 0, loop.text() + " has a kind already", {loop.stmt});
  if (extent_of(loop.stmt) < 0)
    ctx.refuse(1, 0, "the extent of " + loop.text() + " isn't a constant", {loop.stmt});
  check_neighbours(ctx, loop, tag);
  if (is_thread_tag(tag)) check_thread_count(ctx, loop);
  if (is_block_tag(tag)) check_passed_values(ctx, loop);
  PrimFunc out = ctx.func();
  if (const auto conflict = make_independent(out, old.var, true))
    ctx.forbid(2, 0, conflict->why, conflict->blocks, conflict_hint(ctx, loop, *conflict));
  const Stmt now = loop_with(out, old.var);
  return replace(out, now,
                 make::loop(old.var, old.extent, as_for(now).body, ForKind::thread, tag, old.annotations));
}

}  // namespace

Primitive bind_row() {
  return {"bind",
          "",
          {{ArgKind::loop, "T.i"}, {ArgKind::word, "threadIdx.x"}},
          {},
          "Binds a loop to the blocks or threads of a GPU.",
          {"the loop is serial, its extent is constant, and the tag is blockIdx.x|y|z, threadIdx.x|y|z or "
           "vthread",
           semantic("no two iterations access the same element if one of them writes it"),
           "no loop around or inside has the same tag; block loops are outside of thread loops and of loops "
           "that carry values between iterations; no vectorized or parallel loop is around",
           "a GPU block has at most 1024 threads"},
          {examples::kGrid, "bind Y.j threadIdx.x"},
          run,
          true};
}

}  // namespace nestor::schedules
