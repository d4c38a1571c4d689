#include "tuner/job.h"

#include <nlohmann/json.hpp>

#include "nestor/error.h"

namespace nestor {

std::string to_json_line(const Job& j) {
  return nlohmann::json{{"id", j.id},           {"func", j.func},           {"trace", j.trace},
                        {"target", j.target},   {"threads", j.threads},     {"seed", j.seed},
                        {"seconds", j.seconds}, {"cutoff_ns", j.cutoff_ns}, {"db", j.db}}
      .dump();
}

Job job_from_json(const std::string& line) {
  try {
    const nlohmann::json j = nlohmann::json::parse(line);
    Job job;
    j.at("id").get_to(job.id);
    j.at("func").get_to(job.func);
    j.at("trace").get_to(job.trace);
    j.at("target").get_to(job.target);
    job.threads = j.value("threads", 1);
    job.seed = j.value("seed", uint64_t{0});
    job.seconds = j.value("seconds", 0.1);
    job.cutoff_ns = j.value("cutoff_ns", 0.0);
    job.db = j.value("db", "");
    return job;
  } catch (const nlohmann::json::exception& e) {
    throw UserError(Diagnostic{"a job for a worker can't be read", {}, {e.what()}, "one JSON object a line"});
  }
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

}  // namespace nestor
