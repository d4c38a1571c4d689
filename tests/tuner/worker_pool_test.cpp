// Workers that misbehave cost the one job they had. The workers here are shell commands that speak the
// protocol.
#include "catch.h"
#include "nestor/error.h"
#include "nestor/tune.h"

using namespace nestor;

namespace {

std::vector<Job> some_jobs(int count) {
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i) {
    Job j;
    j.id = 100 + i;
    j.func = "func f() {}";
    j.target = "native";
    jobs.push_back(j);
  }
  return jobs;
}

// Answers every line with a right record.
const std::string kAnswer =
    R"(echo '{"workload":"w","func":"f","target":"t","threads":1,"trace":"","outcome":"ok","samples_ns":[5],"median_ns":5}')";

std::vector<Record> run_with(const std::string& command, int jobs, double timeout_s = 5) {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {command};
  options.timeout_s = timeout_s;
  int seen = 0;
  auto results = WorkerPool(options).run(some_jobs(jobs), [&](Record&) { ++seen; });
  CHECK(seen == jobs);
  return results;
}

}  // namespace

TEST_CASE("jobs are answered in job order") {
  const auto results = run_with("while read line; do " + kAnswer + "; done", 5);
  for (size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].id == 100 + static_cast<int64_t>(i));
    CHECK(results[i].outcome == Outcome::ok);
    CHECK(results[i].median_ns == 5);
  }
}

TEST_CASE("a worker that dies costs one job and is started again") {
  const auto results = run_with("read line; " + kAnswer + "; read line; kill -SEGV $$", 6);
  int ok = 0, crashed = 0;
  for (const Record& r : results) {
    ok += r.outcome == Outcome::ok;
    crashed += r.outcome == Outcome::crash;
    if (r.outcome == Outcome::crash) CHECK(r.detail.find("Segmentation fault") != std::string::npos);
  }
  CHECK(ok == 3);
  CHECK(crashed == 3);
}

TEST_CASE("a worker that hangs is killed at its limit") {
  const auto results = run_with("read line; " + kAnswer + "; read line; sleep 1000", 2, 0.3);
  CHECK(results[0].outcome == Outcome::ok);
  CHECK(results[1].outcome == Outcome::timeout);
}

TEST_CASE("a worker that talks nonsense costs one job") {
  const auto results = run_with("read line; echo hello", 2);
  CHECK(results[0].outcome == Outcome::crash);
  CHECK(results[0].detail.find("hello") != std::string::npos);
}

TEST_CASE("a command that can't be started is a crash, not a hang") {
  CHECK(run_with("/no/such/program", 2)[1].outcome == Outcome::crash);
}
