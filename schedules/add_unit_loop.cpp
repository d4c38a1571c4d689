// add_unit_loop: a loop of one iteration around a block or a loop. It gives a block that has no loops a place
// that other steps can name: to be bound to a thread, to be where another block is computed.
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

PrimFunc run(StepContext& ctx) {
  ctx.expect_results(1);
  const bool of_loop = ctx.names_loop(0);
  const LoopRef loop = of_loop ? ctx.loop(0) : LoopRef();
  const Place p = of_loop ? loop.place : ctx.block(0);
  const Stmt target = of_loop ? loop.stmt : p.stmt;
  const size_t depth = p.depth_of(target);
  bool in_kernel = false;
  for (size_t i = 0; i < depth; ++i) {
    const auto* l = p.path[i].as<For>();
    if (!l) continue;
    if (l->kind == ForKind::vectorized)
      ctx.refuse(1, 0, l->var->name + " is vectorized", {p.path[i]},
                 "u = add_unit_loop " + p.name() + "." + l->var->name);
    in_kernel = in_kernel || l->kind == ForKind::thread;
  }
  if (!in_kernel)
    for_each_stmt(target, [&](const Stmt& s) {
      if (const auto* l = s.as<For>(); l && l->kind == ForKind::thread)
        ctx.refuse(1, 0, l->var->name + " is bound to " + name_of(l->thread), {s},
                   "u = add_unit_loop " + p.name());
    });
  std::set<std::string> taken = names_around(ctx.func(), target);
  const Var v = make_var(ctx.new_name(0, "u", taken));
  return replace(ctx.func(), target, make::loop(v, 1, target));
}

}  // namespace

Primitive add_unit_loop_row() {
  return {"add_unit_loop",
          "u",
          {{ArgKind::target, "T.i | T"}},
          {},
          "Adds a loop of one iteration around a block or a loop.",
          {"it isn't inside a vectorized loop; if loops inside it are bound to a GPU, a loop around it is "
           "bound too"},
          {examples::kGrid, "u = add_unit_loop Y.j"},
          run};
}

}  // namespace nestor::schedules
