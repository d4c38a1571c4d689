// tile: several loops are split by one factor each, and the inner ones brought inside: a sugar for splits and
// a reorder, whose requirements it has.
#include <algorithm>

#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

std::string counted(size_t n, const std::string& thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

PrimFunc run(StepContext& ctx) {
  const std::vector<LoopRef> loops = ctx.loops(0);
  const auto factors = ctx.ints(1);
  std::vector<std::string> sizes;
  for (const auto& factor : factors) sizes.push_back(std::to_string(factor.value_or(16)));
  if (std::count(factors.begin(), factors.end(), std::nullopt))
    ctx.refuse(1, 1, "`_` isn't a factor of a tile: each loop has one, and what is left of it is computed",
               {loops[0].place.stmt}, ctx.instead(1, "[" + join(sizes, ", ") + "]"));
  if (loops.size() < 2 || loops.size() != factors.size())
    ctx.refuse(1, 1, counted(factors.size(), "factor") + " for " + counted(loops.size(), "loop"),
               {loops[0].place.stmt});
  ctx.expect_results(2 * loops.size());
  const std::string block = loops[0].place.name();
  std::set<std::string> taken = names_around(ctx.func(), loops[0].stmt);
  for (const LoopRef& l : loops) {
    const auto more = names_around(ctx.func(), l.stmt);
    taken.insert(more.begin(), more.end());
  }
  for (const LoopRef& l : loops) taken.erase(loop_name(l.stmt));
  std::vector<std::string> outer, inner;
  const size_t n = loops.size();
  for (size_t i = 0; i < 2 * n; ++i) {
    const std::string name = ctx.new_name(i, loop_name(loops[i % n].stmt) + (i < n ? "0" : "1"), taken);
    (i < n ? outer : inner).push_back(name);
  }
  Decisions decisions;
  PrimFunc f = ctx.func();
  try {
    const QuietRefusals quiet;  // the alternatives are tile's own
    for (size_t i = 0; i < n; ++i) {
      Step split;
      split.primitive = "split";
      split.results = {outer[i], inner[i]};
      split.args = {loops[i].text(), "[_, " + std::to_string(*factors[i]) + "]"};
      split.options = ctx.step().options;
      f = apply_step(f, split, decisions);
    }
    Step reorder;
    reorder.primitive = "reorder";
    std::vector<std::string> order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    reorder.args = {block, "(" + join(order, " ") + ")"};
    return apply_step(f, reorder, decisions);
  } catch (const ScheduleError& e) {
    if (e.diagnostic().message.find("of tile:") != std::string::npos) throw;
    std::string why = e.diagnostic().message;
    for (const std::string& note : e.diagnostic().notes) why += "\n" + note;
    ctx.refuse(2, 0, why, {}, e.diagnostic().hint);
  }
}

}  // namespace

Primitive tile_row() {
  return {"tile",
          "i0 j0 ... i1 j1 ...",
          {{ArgKind::loops, "T (i j ...)"}, {ArgKind::ints, "[16, 32]"}},
          {{"tail", "guard|peel|mask|balanced",
            "a partial tile: `guard` checks in every iteration; `peel` makes a separate loop; `mask` "
            "computes full vectors with masked lanes; `balanced` makes all tiles nearly the same size"}},
          "Splits several loops by one factor each, and moves the inner loops inside.",
          {"there are as many factors as loops, at least two, and none is `_`",
           "the requirements of split and reorder for these loops"},
          {examples::kMatmul, "i0 j0 i1 j1 = tile Y (i j) [8, 32]"},
          run,
          true};
}

}  // namespace nestor::schedules
