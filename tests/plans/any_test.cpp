// The family `any` has plans for every nest, most of which can be made, and none of which changes a result.
#include <map>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/passes.h"
#include "nestor/plan.h"
#include "nestor/print.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/functions.h"

using namespace nestor;

namespace {

std::unique_ptr<PlanSpace> any_space(const PrimFunc& f, const Target& target) {
  for (auto& space : plan_spaces(f, target))
    if (space->family() == "any") return std::move(space);
  return nullptr;
}

}  // namespace

TEST_CASE("Plans of any nest compute what it does") {
  const Target target = parse_target("x86-64-v4");
  int drawn = 0, made = 0;
  std::map<std::string, int> refused;
  for (int i = 0; i < fuzz_function_count(); ++i) {
    std::mt19937_64 rng(static_cast<uint64_t>(i));
    const FuzzFunction function = make_function(i, draw_sizes(i % 2 == 0, rng));
    const auto space = any_space(function.func, target);
    if (!space) continue;
    const std::vector<Tensor> expected = run_original(function.func, 7);
    int of_this = 0;
    for (int k = 0; k < 20; ++k) {
      const std::optional<SchedulePlan> plan = space->draw(rng);
      if (!plan) continue;
      ++drawn;
      INFO(print(function.func) << space->print(*plan));
      Trace trace;
      try {
        trace = space->emit(*plan);
        const PrimFunc f = apply(function.func, trace);
        lower(f, target);
        ++of_this;
        INFO(print(trace));
        const Agreement a = compare_runs(f, expected, 7, function.tolerance);
        INFO(a.why);
        CHECK(a.same);
      } catch (const UserError& e) {
        std::string why =
            e.diagnostic().message + (e.diagnostic().notes.empty() ? "" : " " + e.diagnostic().notes[0]);
        ++refused[(trace.steps.empty() ? "" : "LOWER ") + function.name + ": " + why];
      }
      CHECK(space->parse(space->print(*plan)) == plan);
    }
    made += of_this;
  }
  CHECK(drawn > 1000);
  std::string most;
  for (const auto& [why, n] : refused) most += std::to_string(n) + " " + why + "\n";
  INFO(made << " of " << drawn << " plans could be made; the others:\n" << most);
  CHECK(made * 4 > drawn * 3);
}
