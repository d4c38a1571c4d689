// Requirement G of every step: the target can do what the step asks for. Primitives don't know the target, so
// that this is checked where a trace meets one, before lowering. A step that lowering for a GPU would pass
// over (src/passes/pipeline.cpp has no pass for it) must not look as if it had been done.
#include "nestor/for_target.h"

#include <algorithm>
#include <array>

#include "schedules/primitive.h"
#include "schedules/words.h"

namespace nestor {

namespace {

struct Problem {
  SourceLoc at;
  std::string why, hint;
};

// Hints of annotate that only lowering for CPUs reads.
constexpr std::array kForCpus = {"streaming", "in_place", "peel", "split", "threads"};

bool is_for_cpus(const std::string& key) {
  return std::find(kForCpus.begin(), kForCpus.end(), key) != kForCpus.end();
}

std::optional<Problem> problem_on_gpu(const Step& step) {
  if (step.primitive == "parallel")
    return Problem{
        schedules::loc_of_primitive(step),
        "parallel is for threads of a CPU; a thread of the GPU would run all iterations, one after "
        "the other",
        "bind " + step.args.at(0) + " blockIdx.x\nbind " + step.args.at(0) + " threadIdx.x"};
  for (const auto& [key, value] : step.options) {
    Step without = step;
    std::erase_if(without.options, [&](const auto& o) {
      return step.primitive == "annotate" ? is_for_cpus(o.first) : o.first == key;
    });
    if (key == "tail" && value == "peel")
      return Problem{schedules::loc_of_option(step, key),
                     "code for GPUs has no loops of full tiles apart from the last one: threads diverge by a "
                     "guard, which tail=guard asks for",
                     print(without) + " tail=guard"};
    if (step.primitive == "annotate" && is_for_cpus(key))
      return Problem{schedules::loc_of_option(step, key), "lowering for GPUs doesn't read `" + key + "`",
                     without.options.empty() ? "" : print(without)};
  }
  return std::nullopt;
}

}  // namespace

void check_for_target(const PrimFunc& f, const Trace& trace, const Target& target) {
  if (target.kind != TargetKind::cuda) return;
  const auto bad = std::find_if(trace.steps.begin(), trace.steps.end(),
                                [](const Step& s) { return problem_on_gpu(s).has_value(); });
  if (bad == trace.steps.end()) return;
  schedules::Decisions decisions;
  PrimFunc before = f;
  for (auto s = trace.steps.begin(); s != bad; ++s) before = schedules::apply_step(before, *s, decisions);
  const Problem problem = *problem_on_gpu(*bad);
  const schedules::StepContext context(before, *bad, *schedules::find_primitive(bad->primitive), decisions);
  const std::string why = target.name + ": " + problem.why;
  if (!problem.hint.empty()) context.refuse_common('G', problem.at, why, problem.hint);
  try {
    context.refuse_common('G', problem.at, why, "");
  } catch (const ScheduleError& e) {  // other steps for the same place would be others that mean nothing here
    Diagnostic d = e.diagnostic();
    d.hint = "leave the step out";
    throw ScheduleError(d);
  }
}

}  // namespace nestor
