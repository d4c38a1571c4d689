// The texts of schedules/library/*.sched, embedded by the build.
#pragma once

#include <vector>

namespace nestor::schedules {

struct LibrarySched {
  const char* name;
  const char* text;
};
const std::vector<LibrarySched>& library_sched_files();  // in order of name

}  // namespace nestor::schedules
