#include "src/cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "nestor/library.h"
#include "nestor/print.h"
#include "schedules/sched_file.h"
#include "src/cli/common.h"
#include "src/cli/tune_display.h"

namespace nestor::cli {

namespace {

using Function = report::TuningPage::Function;

// The nest that a schedule makes; empty where it doesn't apply.
std::optional<PrimFunc> scheduled(const PrimFunc& f, const Trace& trace) {
  const QuietRefusals quiet;
  try {
    return apply(f, trace);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void add_failure(Function& to, const Record& r) {
  const std::string cause = name_of(r.outcome);
  const auto same =
      std::find_if(to.failures.begin(), to.failures.end(), [&](const auto& f) { return f.cause == cause; });
  auto& failure = same == to.failures.end() ? to.failures.emplace_back() : *same;
  failure.cause = cause;
  ++failure.count;
  if (failure.example.empty()) failure.example = r.detail;
}

void compare_schedules(Function& to, const PrimFunc& f, const Trace& usual, const Trace& best) {
  to.default_steps = print(usual);
  to.best_steps = print(best);
  const auto before = scheduled(f, usual), after = scheduled(f, best);
  if (before) to.default_nest = print(*before);
  if (after) to.best_nest = print(*after);
  if (before && after) to.differences = report::differences(f, *before, *after);
}

// A database may hold functions that the library was never made for.
Trace usual_schedule_of(const ReportedFunction& f) {
  const QuietRefusals quiet;
  try {
    return default_schedule(f.func, f.target);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Function reported(const Database& db, const ReportedFunction& f, report::Roofline* roofline) {
  Function out;
  out.name = f.func.name;
  out.calls = f.calls;
  if (roofline) out.bound = roofline->bound_of(report::least_work(f.func));
  const bool here = f.record_target == record_target(f.target);
  const Trace usual = here ? usual_schedule_of(f) : Trace{};
  const std::string usual_text = print(usual), key = workload_key(f.func);
  for (const Record& r : db.records(key, f.record_target, f.threads)) {
    const bool right = r.outcome == Outcome::ok && bad_figures(r).empty();
    out.trials_ns.push_back(right ? r.median_ns : 0);
    if (!right) add_failure(out, r);
    if (right && here && r.trace == usual_text && out.default_ns == 0) out.default_ns = r.median_ns;
  }
  db.by_speed(key, f.record_target, f.threads, [&](const Record& r) {
    if (!bad_figures(r).empty()) return false;
    out.best_ns = r.median_ns;
    out.plan = r.plan;
    try {
      const Trace best = schedules::parse_primitives(r.trace, "record");
      if (here)
        compare_schedules(out, f.func, usual, best);
      else
        out.best_steps = r.trace;
    } catch (const UserError&) {  // another version's
    }
    return true;
  });
  out.verdict = out.default_ns > 0 && out.best_ns > 0 ? fmt::format("{:.2f}x", out.default_ns / out.best_ns)
                                                      : "not known";
  if (out.default_ns > 0 && out.best_ns == out.default_ns) out.verdict = "the default is best";
  return out;
}

void add_result(const TuneResult& r, Function& to) {
  to.compared = r.compared;
  if (r.default_ns > 0) to.default_ns = r.default_ns;
  if (r.best_ns > 0) to.best_ns = r.best_ns;
  to.verdict = verdict(r);
  to.plan = r.plan;
  to.end = describe(r.end);
  if (r.untried > 0)
    to.end +=
        fmt::format(", {} proposed and not measured", counted(static_cast<size_t>(r.untried), "candidate"));
}

std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string out;
  for (std::string word; std::getline(in, word, '\0');) {
    constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    if (out.empty()) word = word.substr(word.rfind('/') + 1);  // the program
    out += (out.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> machine_facts(const Target& t, int threads,
                                                               report::Roofline* roofline) {
  std::vector<std::pair<std::string, std::string>> out = {
      {"machine", fmt::format("{}, {}-bit vectors, L1 {} KiB, L2 {} KiB, L3 {} KiB", record_target(t),
                              t.vector_bits, t.l1_bytes >> 10, t.l2_bytes >> 10, t.l3_bytes >> 10)},
      {"threads", std::to_string(threads)}};
  if (!roofline) return out;
  constexpr int64_t kMemory = int64_t{1} << 27;
  out.emplace_back("FMA peak", fmt::format("{:.0f} GFLOP/s (f32, {})", roofline->peak_gflops(),
                                           counted(static_cast<size_t>(threads), "thread")));
  out.emplace_back("copy of 128 MiB",
                   fmt::format("{:.1f} GB/s, read and written", roofline->copy_gbs(kMemory)));
  return out;
}

}  // namespace nestor::cli
