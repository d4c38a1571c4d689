// Records as JSON lines, the export format, and what is checked of a record that somebody else wrote.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/sched_file.h"
#include "tuner/fields.h"
#include "tuner/job.h"

namespace nestor {

namespace {

constexpr const char* kNames[] = {"ok",    "illegal", "compile_error", "wrong_result",
                                  "crash", "timeout", "bad_answer"};
static_assert(std::size(kNames) == kOutcomes);
constexpr double kShortestNs = 0.01;  // of any call
constexpr double kLongestNs = 1e15;   // twelve days
constexpr size_t kLongestName = 256;
constexpr size_t kLongestFunc = 16 << 20;

std::string written(double v) {
  return nlohmann::json(v).is_number() && std::isfinite(v) ? nlohmann::json(v).dump() : std::to_string(v);
}

bool is_time(double ns) {
  return ns >= kShortestNs && ns <= kLongestNs;  // false for NaN
}
bool is_figure(double v) {
  return std::isfinite(v) && v >= 0;
}

}  // namespace

const char* name_of(Outcome outcome) {
  return kNames[static_cast<size_t>(outcome)];
}

std::optional<Outcome> parse_outcome(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Outcome>(i);
  return std::nullopt;
}

std::string to_json_line(const Record& r) {
  return nlohmann::json{{"id", r.id},
                        {"workload", r.workload},
                        {"func", r.func},
                        {"target", r.target},
                        {"threads", r.threads},
                        {"trace", r.trace},
                        {"plan", r.plan},
                        {"outcome", name_of(r.outcome)},
                        {"detail", r.detail},
                        {"samples_ns", r.samples_ns},
                        {"median_ns", r.median_ns},
                        {"compile_ms", r.compile_ms},
                        {"error", r.error},
                        {"seed", r.seed},
                        {"version", r.version},
                        {"host", r.host},
                        {"declared", r.declared}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Record record_from_json(const std::string& line) {
  const Fields fields(line, "a tuning record",
                      "one JSON object a line, as `nestor db t.db export` writes them");
  Record r;
  r.id = fields.integer("id", 0, INT64_MAX, 0);
  r.workload = fields.text("workload", kLongestName);
  r.func = fields.text("func", kLongestFunc);
  r.target = fields.text("target", kLongestName);
  r.threads = static_cast<int>(fields.integer("threads", 1, INT32_MAX));
  r.trace = fields.text("trace", kLongestTrace);
  r.plan = one_line(fields.text("plan", kLongestTrace, ""), kLongestTrace);
  const std::string outcome = fields.text("outcome", kLongestName);
  const auto known = parse_outcome(outcome);
  if (!known) fields.fail("`" + outcome + "` isn't an outcome");
  r.outcome = *known;
  r.detail = one_line(fields.text("detail", kLongestTrace, ""), kLongestDetail);
  r.samples_ns = fields.numbers("samples_ns", kMostSamples);
  r.median_ns = fields.number("median_ns");
  r.compile_ms = fields.number("compile_ms", 0.0);
  r.error = fields.number("error", 0.0);
  r.seed = fields.seed("seed");
  r.version = one_line(fields.text("version", kLongestName, ""), kLongestName);
  r.host = one_line(fields.text("host", kLongestName, ""), kLongestName);
  // That it was the best of some search; those of this database come first.
  r.declared = std::min<int64_t>(fields.integer("declared", 0, INT64_MAX, 0), 1);
  if (const std::string why = bad_figures(r); !why.empty()) fields.fail(why);
  return r;
}

std::string bad_figures(const Record& r) {
  if (!is_figure(r.compile_ms)) return "its compile time is " + written(r.compile_ms) + " ms";
  if (!is_figure(r.error)) return "its error is " + written(r.error);
  if (r.threads < 1) return "it is for " + std::to_string(r.threads) + " threads";
  if (r.trace.size() > kLongestTrace) return "its trace is longer than 1 MiB";
  if (r.outcome != Outcome::ok)
    return is_figure(r.median_ns) ? "" : "its median is " + written(r.median_ns) + " ns";
  if (r.samples_ns.empty()) return "it has no samples that can be read";
  for (const double ns : r.samples_ns)
    if (!is_time(ns)) return "a sample is " + written(ns) + " ns";
  if (!is_time(r.median_ns)) return "its median is " + written(r.median_ns) + " ns";
  return "";
}

PrimFunc check_imported(const Record& r) {
  const PrimFunc f = parse_func(r.func, "its function");
  if (workload_key(f) != r.workload)
    throw UserError("a tuning record is of the workload " + one_line(r.workload, 80) +
                    ", and its function is " + workload_key(f));
  schedules::parse_primitives(r.trace, "its trace");
  return f;
}

}  // namespace nestor
