// Checks whether a record's schedule can be used for a function: it is applied, proved and lowered first.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/sched_file.h"
#include "tuner/fields.h"
#include "tuner/job.h"
#include "tuner/task.h"

namespace nestor {

std::string is_not_used(const Record& r, const std::string& db, const PrimFunc& f, const std::string& why) {
  return "record " + std::to_string(r.id) + " of " + db + " isn't used for " + f.name + ": " + why;
}

std::string why_unusable(const Record& r, const PrimFunc& f, const Target* target, double seconds) {
  if (std::string why = bad_figures(r); !why.empty()) return why;
  if (target && r.trace == print(default_schedule(f, *target))) return "";  // as good as no record
  const QuietRefusals quiet;
  try {
    const PrimFunc scheduled = apply(f, schedules::parse_primitives(r.trace, "its trace"));
    const ScheduleReview review = review_schedule(f, scheduled, {.seconds = seconds});
    if (review.wrong) return "its schedule is wrong: " + one_line(describe(review), 300);
    if (!review.is_right()) return "its schedule can't be proved: " + one_line(describe(review), 300);
    if (target) lower(scheduled, *target);
    return "";
  } catch (const Error& e) {  // one of ours, too: other records, or the default, do
    const Diagnostic& d = e.diagnostic();
    const std::string at = d.loc.line > 0 ? "line " + std::to_string(d.loc.line) + " of its trace: " : "";
    const std::string note = d.notes.empty() ? "" : ": " + d.notes[0];
    return one_line(at + d.message + note, 400);
  }
}

bool is_known_to_help(const Database& db, const Record& r, const PrimFunc& f, const Target& target) {
  const std::string usual = print(default_schedule(f, target));
  if (r.declared > 0 || r.trace == usual) return true;
  const std::vector<Record> all = db.records(r.workload, r.target, r.threads);
  return std::any_of(all.begin(), all.end(), [&](const Record& other) {
    return other.trace == usual && other.outcome == Outcome::ok && other.median_ns >= r.median_ns;
  });
}

ScheduleProvider database_schedules(const std::string& path, int threads, Warn warn) {
  auto db = std::make_shared<Database>(path, Database::Mode::read);
  return [db, threads, warn](const PrimFunc& f, const Target& target) -> std::optional<ScheduleChoice> {
    std::optional<ScheduleChoice> choice;
    size_t unusable = 0;
    db->by_speed(workload_key(f), record_target(target), threads, [&](const Record& r) {
      std::string why = why_unusable(r, f, &target);
      if (why.empty() && !is_known_to_help(*db, r, f, target)) {
        why = "it was never compared with the default, which has no record; run `nestor tune` to do so";
        unusable = kMostUnusable - 1;  // so it is with slower ones
      }
      if (why.empty()) {
        const std::string name = "record " + std::to_string(r.id) + " of " + db->path();
        choice = ScheduleChoice{schedules::parse_primitives(r.trace, name), "database"};
        return true;
      }
      const bool last = ++unusable == kMostUnusable;
      if (warn) warn(is_not_used(r, db->path(), f, why) + (last ? "; slower ones aren't tried" : ""));
      return last;
    });
    return choice;
  };
}

}  // namespace nestor
