// Whether the schedules of a model came from tuning records: a database that isn't used shows in nothing but
// the time.
#pragma once

#include <string>

#include "nestor/driver.h"
#include "src/cli/options.h"

namespace nestor::cli {

// A line on stderr, where there is a --db and the schedule may come from it (`schedule` as in
// compile_options): for how many functions it has one, and why not for the others.
void say_records_used(const CompiledModel& model, const ModelOptions& options, const std::string& schedule);

}  // namespace nestor::cli
