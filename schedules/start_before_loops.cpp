#include "nestor/start_before_loops.h"

#include <algorithm>

#include "nestor/walk.h"

namespace nestor {

namespace {

// The outermost loop that an iterator of the reduction is computed from; "" where there is none.
std::string reduction_loop(const PrimFunc& f, const std::string& name, const Block& block) {
  for (const LoopInfo& l : loops_of(f, name))
    for (const IterVar& i : block.iters) {
      bool used = false;
      for_each_expr(i.binding, [&](const Expr& e) {
        const auto* ref = e.as<VarRef>();
        used = used || (ref && ref->var->name == l.name);
      });
      if (used && i.kind == IterKind::reduce) return l.name;
    }
  return "";
}

bool may_be_empty(const Block& block) {
  return std::any_of(block.iters.begin(), block.iters.end(),
                     [](const IterVar& i) { return i.kind == IterKind::reduce && !as_int(i.extent); });
}

}  // namespace

PrimFunc start_before_loops(PrimFunc f, Trace& trace) {
  for (const std::string& name : block_names(f)) {
    const Block* block = find_block(f, name);
    if (!block->init || !may_be_empty(*block)) continue;
    const std::string loop = reduction_loop(f, name, *block);
    if (loop.empty())
      throw ScheduleError(Diagnostic{"block " + name + " of " + f.name +
                                         " reduces over an open size, which may be 0, but its init can't be "
                                         "moved before the loops of the reduction",
                                     {},
                                     {},
                                     "decompose_reduction, before the step that makes them one"});
    trace.steps.push_back(parse_step("_ = decompose_reduction " + name + "." + loop));
    f = apply(f, trace.steps.back());
  }
  return f;
}

}  // namespace nestor
