// What a tuner and its workers send each other: a job, and an answer.
#include "nestor/error.h"
#include "tests/fuzz/inputs/target.h"
#include "tuner/job.h"

namespace nestor::fuzz {

namespace {

void read_as_answer(const std::string& line) {
  Job job;
  job.id = 7;
  job.func = "f";
  job.trace = "parallel Y.i\n";
  job.target = "native znver5";
  const Record r = read_answer(job, line, 1e9);
  NESTOR_CHECK(r.id == job.id && r.func == job.func && r.trace == job.trace && r.target == job.target &&
               r.threads == job.threads && r.seed == job.seed)
      << "an answer changed the job: " << line;
  NESTOR_CHECK(bad_figures(r).empty()) << bad_figures(r);
  for (const std::string& text : {r.detail, r.version, r.host})
    for (const char c : text) NESTOR_CHECK(static_cast<unsigned char>(c) >= ' ') << "a control character";
}

void read_as_job(const std::string& line) {
  const Job job = job_from_json(line);
  const std::string again = to_json_line(job);
  NESTOR_CHECK(to_json_line(job_from_json(again)) == again) << "a job that isn't read back: " << again;
}

}  // namespace

void read_input(std::string_view input) {
  read_as_answer(std::string(input));
  read_as_job(std::string(input));
}

}  // namespace nestor::fuzz
