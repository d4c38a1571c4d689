#include "tuner/job.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "tuner/fields.h"

namespace nestor {

namespace {

constexpr size_t kLongestText = 16 << 20;  // of a function
constexpr int64_t kMostThreads = 4096;
constexpr double kMostSeconds = 3600;

}  // namespace

std::string to_json_line(const Job& j) {
  return nlohmann::json{{"id", j.id},           {"func", j.func},          {"trace", j.trace},
                        {"target", j.target},   {"threads", j.threads},    {"seed", j.seed},
                        {"seconds", j.seconds}, {"cutoff_ns", j.cutoff_ns}}
      .dump();
}

Job job_from_json(const std::string& line) {
  const Fields fields(line, "a job for a worker", "one JSON object a line");
  Job job;
  job.id = fields.integer("id", 0, INT64_MAX);
  job.func = fields.text("func", kLongestText);
  job.trace = fields.text("trace", kLongestTrace);
  job.target = fields.text("target", 256);
  job.threads = static_cast<int>(fields.integer("threads", 1, kMostThreads, 1));
  job.seed = fields.seed("seed");
  job.seconds = fields.number("seconds", 0.1);
  job.cutoff_ns = fields.number("cutoff_ns", 0.0);
  if (!(job.seconds >= 0 && job.seconds <= kMostSeconds))
    fields.fail("`seconds` isn't a time of at most an hour");
  if (!(job.cutoff_ns >= 0)) fields.fail("`cutoff_ns` isn't a time");
  return job;
}

Record record_of(const Job& job) {
  Record r;
  r.id = job.id;
  r.func = job.func;
  r.target = job.target;
  r.trace = job.trace;
  r.threads = job.threads;
  r.seed = job.seed;
  return r;
}

std::string answer_of(const Record& r) {
  return nlohmann::json{{"id", r.id},
                        {"outcome", name_of(r.outcome)},
                        {"detail", r.detail},
                        {"samples_ns", r.samples_ns},
                        {"compile_ms", r.compile_ms},
                        {"error", r.error},
                        {"version", r.version},
                        {"host", r.host}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Record bad_answer(const Job& job, const std::string& why) {
  Record r = record_of(job);
  r.outcome = Outcome::bad_answer;
  r.detail = one_line(why, kLongestDetail);
  return r;
}

Record read_answer(const Job& job, const std::string& line, double elapsed_ns) {
  Record r = record_of(job);
  try {
    const Fields fields(line, "the worker's answer", "");
    const int64_t id = fields.integer("id", 0, INT64_MAX);
    if (id != job.id)
      fields.fail("it is one to job " + std::to_string(id) + ", not to " + std::to_string(job.id));
    const std::string outcome = fields.text("outcome", 64);
    const auto known = parse_outcome(outcome);
    if (!known) fields.fail("`" + outcome + "` isn't an outcome");
    r.outcome = *known;
    r.detail = one_line(fields.text("detail", kLongestAnswer, ""), kLongestDetail);
    r.version = one_line(fields.text("version", 256, ""), 256);
    r.host = one_line(fields.text("host", 256, ""), 256);
    r.compile_ms = fields.number("compile_ms", 0.0);
    r.error = fields.number("error", 0.0);
    if (r.outcome == Outcome::ok) {
      r.samples_ns = fields.numbers("samples_ns", kMostSamples);
      if (!r.samples_ns.empty()) r.median_ns = median(r.samples_ns);
    }
    if (const std::string why = bad_figures(r); !why.empty()) fields.fail(why);
    const double longest =
        r.samples_ns.empty() ? 0 : *std::max_element(r.samples_ns.begin(), r.samples_ns.end());
    if (longest > elapsed_ns || r.compile_ms * 1e6 > elapsed_ns)
      fields.fail("its times are longer than it took");
    if (r.outcome == Outcome::ok && r.median_ns < job.least_ns)
      fields.fail("its times are shorter than storing the result takes");
  } catch (const UserError& e) {
    return bad_answer(job, e.diagnostic().message + " in " + line.substr(0, 80));
  }
  return r;
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace nestor
