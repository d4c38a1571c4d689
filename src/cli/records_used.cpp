#include "src/cli/records_used.h"

#include <algorithm>
#include <map>
#include <set>

#include "nestor/print.h"
#include "nestor/tune.h"
#include "src/cli/common.h"
#include "src/cli/db_records.h"

namespace nestor::cli {

namespace {

// Why a function has none, in words that others share; `db` is the file.
std::string why_none(const Database& db, const PrimFunc& f, const std::string& target, int threads) {
  std::set<int> other_threads;
  std::set<std::string> other_targets;
  for (const Record& r : db.records(workload_key(f))) {
    if (r.outcome != Outcome::ok) continue;
    if (r.target != target)
      other_targets.insert(shown(r.target));
    else if (r.threads != threads)
      other_threads.insert(r.threads);
    else
      return "only records that can't be used";
  }
  if (!other_threads.empty()) {
    std::string list;
    for (const int n : other_threads) list += (list.empty() ? "" : ", ") + std::to_string(n);
    return "records for --threads " + list + " only";
  }
  if (other_targets.empty()) return "no record";
  std::string list;
  for (const std::string& t : other_targets) list += (list.empty() ? "" : ", ") + t;
  return "records for " + list + " only";
}

}  // namespace

void say_records_used(const CompiledModel& model, const ModelOptions& o, const std::string& schedule) {
  if (o.db.empty() || o.json || schedule == "default" || schedule == "naive") return;
  const Database db(o.db, Database::Mode::read);
  size_t used = 0, asked = 0, defaults = 0;
  const ScheduleProvider usual = default_schedules();
  std::map<std::string, size_t> reasons;
  const std::string target = record_target(model.target);
  const int threads = threads_of(o, target_of(o));
  for (const CompiledFunction& f : model.funcs) {
    const bool from_db = f.choice.origin == "database";
    if (!from_db && f.choice.origin != "default" && f.choice.origin != "plain") continue;  // a .sched file's
    ++asked;
    const bool same =
        from_db && f.func.dims.empty() && print(f.choice.trace) == print(usual(f.func, model.target)->trace);
    used += from_db && !same;
    defaults += same;
    if (!from_db) ++reasons[why_none(db, f.func, target, threads)];
  }
  if (asked == 0) return;
  std::string line =
      o.db + ": tuned schedules for " + std::to_string(used) + " of " + counted(asked, "function");
  if (defaults > 0) line += "; for " + std::to_string(defaults) + " the default was the fastest measured";
  for (const auto& [why, count] : reasons)
    line += (why == reasons.begin()->first ? "; default schedules for " : ", for ") + std::to_string(count) +
            ", which " + (count == 1 ? "has " : "have ") + why;
  if (reasons.size() == 1 && reasons.begin()->first == "no record")
    line += " for " + target + " and " + counted(static_cast<size_t>(threads), "thread");
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace nestor::cli
