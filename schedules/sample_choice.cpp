// sample_choice: a name for one of several words that a search may choose: a factor, a tail, a scope, a
// number.
#include <algorithm>

#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

PrimFunc run(StepContext& ctx) {
  const std::vector<std::string> candidates = ctx.items(0), decided = ctx.decision(1);
  ctx.expect_results(1);
  if (candidates.empty()) ctx.refuse(1, 0, "the list is empty", {}, "v = sample_choice [1, 2, 4] -> 2");
  Step legal = ctx.step();
  legal.args = {legal.args[0], "->", candidates[0]};
  if (decided.empty()) ctx.refuse(2, 0, "nothing has been decided", {}, print(legal));
  if (decided.size() != 1 || std::find(candidates.begin(), candidates.end(), decided[0]) == candidates.end())
    ctx.refuse(3, 1, "`" + join(decided, ", ") + "` is none of them", {}, print(legal));
  if (!ctx.step().results.empty() && ctx.step().results[0] != "_")
    ctx.decisions()[ctx.step().results[0]] = decided[0];
  return ctx.func();
}

}  // namespace

Primitive sample_choice_row() {
  return {"sample_choice",
          "v",
          {{ArgKind::words, "[1, 2, 4]"}, {ArgKind::decision, "-> 2"}},
          {},
          "Names one of several values, as a decision that the tuner may change.",
          {"there is at least one candidate", "there is a decision after `->`",
           "the decision is one of the candidates"},
          {examples::kMap, "w = sample_choice [8, 16, 32] -> 16\ni0 i1 = split Y.i [_, w]"},
          run};
}

}  // namespace nestor::schedules
