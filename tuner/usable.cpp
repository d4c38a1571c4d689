// Whether a record's schedule can be used for a function: it is applied, proved and lowered before it is.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/sched_file.h"
#include "tuner/fields.h"

namespace nestor {

std::string why_unusable(const Record& r, const PrimFunc& f, const Target* target) {
  if (std::string why = bad_figures(r); !why.empty()) return why;
  if (target && r.trace == print(default_schedule(f, *target))) return "";  // as good as no record
  constexpr double kProofSeconds = 20;
  const QuietRefusals quiet;
  try {
    const PrimFunc scheduled = apply(f, schedules::parse_primitives(r.trace, "its trace"));
    const ScheduleReview review = review_schedule(f, scheduled, {.seconds = kProofSeconds});
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

}  // namespace nestor
