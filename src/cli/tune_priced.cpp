#include "src/cli/tune_priced.h"

#include <fmt/format.h>

#include <chrono>

#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/gpu_cost.h"
#include "src/cli/common.h"
#include "src/cli/stop.h"
#include "tuner/priced.h"

namespace nestor::cli {

namespace {

constexpr int64_t kTrials = 200;

Trace start_of(const PrimFunc& f, const TuneVerb& v, const Target& target) {
  for (const std::string& file : v.schedules)
    if (const auto choice = file_schedules(file)(f, target)) return choice->trace;
  return default_schedules()(f, target)->trace;
}

}  // namespace

int tune_by_price(const TuneVerb& v) {
  ModelOptions common = v.common;
  common.db.clear();
  const CompileOptions options = compile_options(common, "naive");
  if (options.target.kind != TargetKind::cuda)
    throw UserError(Diagnostic{"--emulate is for CUDA targets, not for " + options.target.name,
                               {},
                               {},
                               "--target cuda:sm_80 --emulate"});
  watch_interrupt();
  const GpuMachine machine = gpu_machine_of(options.target);
  const CompiledModel model = partition_model(load(v.common.model, options), options);
  bool wrong = false;
  for (const size_t i : select(model.partition.funcs, v.func)) {
    const PrimFunc& f = model.partition.funcs[i];
    PricedOptions search;
    search.target = options.target;
    search.trials = v.trials > 0 ? v.trials : kTrials;
    search.seed = v.seed;
    search.stop = interrupted;
    PricedResult r = tune_by_price(f, start_of(f, v, options.target), search);
    fmt::print(
        "# {}: {:.0f} cycles of an {} by the price, {:.0f} before ({:.2f} times); {} candidates priced, {} "
        "refused, "
        "{} emulated and right\n",
        f.name, r.best, machine.name, r.start, r.best > 0 ? r.start / r.best : 1, r.priced, r.refused,
        r.emulated - static_cast<int>(r.wrong.size()));
    for (const std::string& what : r.wrong)
      fmt::print(stderr, "error: a candidate of {} is wrong: {}\n", f.name, what);
    wrong |= !r.wrong.empty();
    r.trace.func = f.name;
    r.trace.target = options.target.name;
    fmt::print("{}\n", print(r.trace));
  }
  return wrong ? kExitComparisonFailed : 0;
}

}  // namespace nestor::cli
