// Sources of schedules. A provider answers for the functions it knows; the first answer counts.

#include <algorithm>
#include <map>

#include "nestor/driver.h"
#include "nestor/library.h"
#include "nestor/read_text.h"

namespace nestor {

ScheduleProvider default_schedules() {
  return [](const PrimFunc& f, const Target& target) {
    return ScheduleChoice{default_schedule(f, target), "default"};
  };
}

ScheduleProvider naive_schedules() {
  return [](const PrimFunc&, const Target&) { return ScheduleChoice{}; };
}

ScheduleProvider first_of(std::vector<ScheduleProvider> providers) {
  auto choose = [providers](const PrimFunc& f, const Target& t) -> std::optional<ScheduleChoice> {
    for (const ScheduleProvider& provider : providers)
      if (auto choice = provider(f, t)) return choice;
    return std::nullopt;
  };
  return {choose, [providers](const std::vector<PrimFunc>& funcs) {
            for (const ScheduleProvider& provider : providers) provider.check(funcs);
          }};
}

ScheduleProvider file_schedules(const std::string& path) {
  std::map<std::string, Trace> by_func;  // "" is for every function
  for (Trace& trace : parse_schedules(read_text(path), path)) {
    const std::string func = trace.func;
    if (!by_func.emplace(func, std::move(trace)).second)
      throw UserError(path + " has two schedules for " +
                      (func.empty() ? "every function" : "'" + func + "'"));
  }
  if (by_func.empty())
    throw UserError(Diagnostic{path + " has no steps",
                               {},
                               {"the line `schedule NAME {` and a line `}` are a schedule without steps"},
                               "remove the `# ` before each step of a listing"});
  auto choose = [by_func, path](const PrimFunc& f, const Target&) -> std::optional<ScheduleChoice> {
    auto it = by_func.find(f.name);
    if (it == by_func.end()) it = by_func.find("");
    if (it == by_func.end()) return std::nullopt;
    return ScheduleChoice{it->second, path};
  };
  auto check = [by_func, path](const std::vector<PrimFunc>& funcs) {
    std::string names;
    for (const PrimFunc& f : funcs) names += (names.empty() ? "" : ", ") + f.name;
    for (const auto& [name, trace] : by_func) {
      const auto same = [&name = name](const PrimFunc& f) { return f.name == name; };
      if (!name.empty() && std::none_of(funcs.begin(), funcs.end(), same))
        throw UserError(
            Diagnostic{path + " has a schedule for '" + name + "', which isn't a function of the model",
                       {},
                       {},
                       "its functions are " + names});
    }
  };
  return {choose, check};
}

}  // namespace nestor
