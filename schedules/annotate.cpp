// annotate: a loop or block carries a value under a key, which lowering or the tuner reads. It changes no
// result.
//
// Requires
//  1. one KEY=VALUE or more, none of which is `tail` (that is split's to set).
#include <charconv>

#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

Annotation read_value(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

PrimFunc run(StepContext& ctx) {
  Annotations added;
  for (const auto& [key, value] : ctx.step().options) {
    if (key == "tail") ctx.refuse(1, loc_of_option(ctx.step(), key), "`tail` is an option of split");
    added[key] = read_value(*ctx.option(key));
  }
  if (added.empty())
    ctx.refuse(1, StepContext::kPrimitive, "there is no KEY=VALUE", {}, print(ctx.step()) + " key=1");
  ctx.concerns_no_loop();
  if (ctx.names_loop(0)) {
    const LoopRef loop = ctx.loop(0);
    const For& f = as_for(loop.stmt);
    added.insert(f.annotations.begin(), f.annotations.end());
    return replace(ctx.func(), loop.stmt, make::loop(f.var, f.extent, f.body, f.kind, f.thread, added));
  }
  const Place p = ctx.block(0);
  Block copy = p.own();
  added.insert(copy.annotations.begin(), copy.annotations.end());
  copy.annotations = std::move(added);
  return replace(ctx.func(), p.stmt, make::block(std::move(copy)));
}

}  // namespace

Primitive annotate_row() {
  return {
      "annotate",
      "",
      {{ArgKind::target, "T.i | T"}},
      {{"*", "VALUE",
        "an integer, a word or a quoted text. Known to lowering: `streaming=1` of a block, whose stores of "
        "whole aligned vectors then bypass the caches; `in_place=X` of a block that reads X where it writes "
        "an output, which then holds what X would (on a CPU); `peel=1` of a loop, whose first and last "
        "iterations become loops of their own where conditions inside hold only between them; `whole=1` of "
        "a vectorized loop, whose registers stay whole vectors where it is cut short; `chains=N` of a "
        "vectorized loop that folds, of which so many vectors of partial results run side by side, 8 if "
        "nothing is said; `split=static` of a parallel loop, of which each thread then runs one part, the "
        "same in every run, where otherwise whoever is free takes some; `threads=N` of a parallel loop, for "
        "which more threads than that don't pay"}},
      "A loop or block carries a value under a key, for lowering or the tuner to read.",
      {"there is one KEY=VALUE or more, and no `tail`, which is an option of split"},
      {examples::kGrid, "annotate Y.i prefer=2"},
      run,
      true};
}

}  // namespace nestor::schedules
