// Files that a schedule names: `include "more.sched"` and `from="mine.nest"`. A schedule may come from
// somebody else, so it reads nothing outside of the folder that it lies in, neither by `..` nor through a
// link, and an error in a file that it names shows nobody a line of another one.
#pragma once

#include <string>

namespace nestor::schedules {

struct NamedFile {
  std::string path;  // without links; empty where it is refused
  std::string why;   // it is refused, and what would work
  std::string hint;
};

// `name` as a file in `beside` says it, for a schedule in `folder`; its name ends in `ending`.
NamedFile find_in_folder(const std::string& folder, const std::string& beside, const std::string& name,
                         const std::string& ending);

}  // namespace nestor::schedules
