// A trace walked step by step: what `inspect --steps` prints and the HTML page shows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor::report {

struct StepTaken {
  std::string text;  // as source
  std::string why;   // empty where the schedule doesn't say
  PrimFunc after;
};

struct Walk {
  PrimFunc start;
  std::string origin;  // of the schedule: "default", "database", a file's name ...
  std::vector<StepTaken> steps;
  std::vector<std::string> given_up;  // plans that were tried before, and why not
  // Where a step is refused the walk ends before it.
  std::string refused_step;
  std::optional<ScheduleError> refused;
  const PrimFunc& last() const { return steps.empty() ? start : steps.back().after; }
};

Walk walk_trace(const PrimFunc& f, const ScheduleChoice& choice);

}  // namespace nestor::report
