// unroll: writes the bodies of a loop's iterations one after another.
#include "schedules/examples.h"
#include "schedules/move.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

constexpr int64_t kMost = 1024;

PrimFunc run(StepContext& ctx) {
  PrimFunc out = ctx.func();
  ctx.concerns_no_loop();
  for (const LoopRef& l : ctx.loops(0)) {
    const For& old = as_for(l.stmt);
    const int64_t extent = extent_of(l.stmt);
    if (old.kind != ForKind::serial) ctx.refuse(1, 0, l.text() + " has a kind already", {l.stmt});
    if (extent < 0 || extent > kMost)
      ctx.refuse(2, 0, extent < 0 ? "the extent isn't a constant" : "the extent is " + std::to_string(extent),
                 {l.stmt},
                 loop_name(l.stmt) + "0 " + loop_name(l.stmt) + "1 = split " + l.text() + " [_, 4]");
    // Replaced by variable: an earlier loop of the list may have rebuilt this one.
    const Stmt now = loop_with(out, old.var);
    out = replace(out, now,
                  make::loop(old.var, old.extent, as_for(now).body, ForKind::unrolled, ThreadTag::none,
                             old.annotations));
  }
  return out;
}

}  // namespace

Primitive unroll_row() {
  return {"unroll",
          "",
          {{ArgKind::loops, "T (i j ...) | T.i"}},
          {},
          "Unrolls loops completely.",
          {"the loops are serial", "their extents are constants of at most 1024"},
          {examples::kGrid, "unroll Y.i"},
          run,
          true};
}

}  // namespace nestor::schedules
