// sample_factors: names for factors of a loop's extent that a search may choose. The choice stands in the
// line itself, so a trace replays as it was; decisions.cpp draws and changes choices.
#include <charconv>

#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const int64_t extent = extent_of(loop.stmt);
  const int64_t parts = ctx.int_option("parts").value_or(2), max = ctx.int_option("max").value_or(64);
  if (extent < 0) ctx.refuse(1, 0, "the extent of " + loop.text() + " isn't a constant", {loop.stmt});
  if (parts < 2 || parts > static_cast<int64_t>(kMostParts) || max < 1)
    ctx.refuse(1, 0, "parts=" + std::to_string(parts) + " max=" + std::to_string(max));
  ctx.expect_results(static_cast<size_t>(parts));
  const std::vector<std::string> words = ctx.decision(1);
  Step legal = ctx.step();
  std::vector<std::string> ones(static_cast<size_t>(parts), "1");
  ones[0] = std::to_string(extent);
  legal.args = {legal.args[0], "->", "[" + join(ones, ", ") + "]"};
  if (words.empty()) ctx.refuse(2, 0, "nothing has been decided", {loop.stmt}, print(legal));
  int64_t product = 1;
  for (size_t i = 0; i < words.size(); ++i) {
    int64_t f = 0;
    const auto [end, error] = std::from_chars(words[i].data(), words[i].data() + words[i].size(), f);
    if (error != std::errc() || end != words[i].data() + words[i].size() || f < 1 ||
        f > (int64_t{1} << 40) / product)
      ctx.refuse(3, 1, "`" + words[i] + "` isn't a factor", {loop.stmt}, print(legal));
    if (i > 0 && f > max)
      ctx.refuse(3, 1, words[i] + " is above max=" + std::to_string(max), {loop.stmt}, print(legal));
    product *= f;
  }
  if (words.size() != static_cast<size_t>(parts) || product < extent)
    ctx.refuse(3, 1, "the extent is " + std::to_string(extent), {loop.stmt}, print(legal));
  for (size_t i = 0; i < ctx.step().results.size(); ++i)
    if (ctx.step().results[i] != "_") ctx.decisions()[ctx.step().results[i]] = words[i];
  return ctx.func();
}

}  // namespace

Primitive sample_factors_row() {
  return {
      "sample_factors",
      "f0 f1 ...",
      {{ArgKind::loop, "T.i"}, {ArgKind::decision, "-> [4, 16]"}},
      {{"parts", "INT", "number of factors; by default 2"},
       {"max", "INT", "limit of all factors but the first; by default 64"}},
      "Names factors of a loop's extent, as a decision that the tuner may change.",
      {"the loop's extent is a constant, parts is 2 to 64 and max at least 1",
       "there is a decision after `->`",
       "the decision has one factor per part, all at least 1 and, but for the first, at most max; their "
       "product covers the extent"},
      {examples::kMap, "f0 f1 = sample_factors Y.i parts=2 max=64 -> [5, 20]\ni0 i1 = split Y.i [f0, f1]"},
      run,
      true};
}

}  // namespace nestor::schedules
