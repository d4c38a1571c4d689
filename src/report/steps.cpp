#include "src/report/steps.h"

namespace nestor::report {

Walk walk_trace(const PrimFunc& f, const ScheduleChoice& choice) {
  Walk walk{f, choice.origin, {}, choice.trace.given_up, {}, {}};
  Schedule schedule(f);
  for (const Step& step : choice.trace.steps) {
    try {
      schedule.step(step);
    } catch (const ScheduleError& e) {
      walk.refused_step = print(step);
      walk.refused = in_function(e, f, choice);
      return walk;
    }
    walk.steps.push_back({print(step), step.why, schedule.func()});
  }
  return walk;
}

}  // namespace nestor::report
