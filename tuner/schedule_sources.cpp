// Where the schedules of a model come from, as the command line and the Python package say it.
#include <filesystem>

#include "nestor/nearest.h"
#include "nestor/tune.h"
#include "src/graph/control_flow.h"

namespace nestor {

void choose_schedules(CompileOptions& options, const std::string& given, const std::string& db,
                      const Warn& warn) {
  const std::string schedule = !given.empty() ? given : db.empty() ? "default" : "tuned";
  if (schedule == "naive") {
    options.fuse = false;
    options.schedules = naive_schedules();
    return;
  }
  std::vector<ScheduleProvider> providers;
  if (schedule == "tuned" && db.empty())
    throw UserError(
        Diagnostic{"a tuned schedule needs --db", {}, {}, "nestor tune MODEL --db t.db makes one"});
  if (schedule != "default" && schedule != "tuned") {
    if (const std::string near = did_you_mean(schedule, {"naive", "default", "tuned"});
        !near.empty() && !std::filesystem::exists(schedule))
      throw UserError(Diagnostic{"there is no schedule " + schedule, {}, {}, near});
    if (!std::filesystem::exists(schedule))
      throw UserError(Diagnostic{"can't read " + schedule + ": there is no such file",
                                 {},
                                 {},
                                 "naive, default, tuned or a .sched file"});
    providers.push_back(file_schedules(schedule));
  }
  if (!db.empty() && schedule != "default")
    providers.push_back(database_schedules(db, options.threads, warn));
  providers.push_back(default_schedules());
  options.schedules = first_of(std::move(providers));
}

std::vector<TuneTask> tune_tasks(const Partition& partition) {
  std::vector<TuneTask> tasks;
  for (const PrimFunc& f : partition.funcs) tasks.push_back({f, 0});
  int64_t times = 1;
  std::vector<int64_t> around;  // a loop of unknown length counts once
  for (const KernelCall& c : partition.calls) {
    if (c.func == kLoopBegins) {
      around.push_back(times);
      times *= least_trips(*c.control);
    } else if (c.func == kLoopEnds) {
      times = around.back();
      around.pop_back();
    } else if (!c.control) {
      tasks[static_cast<size_t>(c.func)].calls += static_cast<int>(times);
    }
  }
  return tasks;
}

}  // namespace nestor
