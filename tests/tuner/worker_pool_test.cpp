// Workers that misbehave cost the one job they had, and nothing of what they say gets through unchecked. The
// workers here are shell commands, and hostile_worker.py.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/tune.h"

using namespace nestor;

namespace {

std::vector<Job> some_jobs(int count, const std::string& func = "func f() {}") {
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i) {
    Job j;
    j.id = 100 + i;
    j.func = func;
    j.trace = "schedule {\n}\n";
    j.target = "native";
    jobs.push_back(j);
  }
  return jobs;
}

// Answers the line with a right record.
const std::string kAnswer =
    R"(printf '{"id":%s,"outcome":"ok","samples_ns":[5]}\n' $(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'))";

std::vector<Record> run_with(const std::string& command, const std::vector<Job>& jobs, double timeout_s) {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {command};
  options.timeout_s = timeout_s;
  size_t seen = 0;
  auto results = WorkerPool(options).run(jobs, [&](Record&) { ++seen; });
  CHECK(seen == jobs.size());
  return results;
}
std::vector<Record> run_with(const std::string& command, int jobs, double timeout_s = 20) {
  return run_with(command, some_jobs(jobs), timeout_s);
}
std::vector<Record> run_hostile(const std::string& mode, int jobs, double timeout_s = 20) {
  return run_with("exec " + std::string(NESTOR_PYTHON) + " " + NESTOR_SOURCE_DIR +
                      "/tests/tuner/hostile_worker.py " + mode,
                  jobs, timeout_s);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("jobs are answered in job order") {
  const auto results = run_with("while read line; do " + kAnswer + "; done", 5);
  for (size_t i = 0; i < results.size(); ++i) {
    INFO(results[i].detail);
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
    if (r.outcome == Outcome::crash) CHECK(contains(r.detail, "Segmentation fault"));
  }
  CHECK(ok == 3);
  CHECK(crashed == 3);
}

// Answers jobs whose id isn't among the faulty ones, and dies at these.
std::string dies_at(const std::string& pattern) {
  return "while read line; do case \"$line\" in " + pattern + ") kill -SEGV $$;; *) " + kAnswer +
         ";; esac; done";
}

TEST_CASE("three failures in a row are the candidates' where the worker still answers what it did before") {
  const auto results =
      run_with(dies_at("*'\"id\":102,'*|*'\"id\":103,'*|*'\"id\":104,'*|*'\"id\":105,'*"), 8);
  REQUIRE(results.size() == 8);
  for (const Record& r : results) {
    INFO(r.id);
    CHECK(r.outcome == (r.id >= 102 && r.id <= 105 ? Outcome::crash : Outcome::ok));
  }
}

TEST_CASE("a worker that fails at everything is out, and another one does its jobs") {
  WorkerPoolOptions options;
  options.local = 0;
  std::vector<std::string> said;
  options.warn = [&](const std::string& line) { said.push_back(line); };
  options.commands = {"exit 3", "while read line; do sleep 0.02; " + kAnswer + "; done"};
  const auto results = WorkerPool(options).run(some_jobs(12), [](Record&) {});
  REQUIRE(results.size() == 12);
  for (const Record& r : results) CHECK(r.outcome == Outcome::ok);
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0], "`exit 3` is out after 3 failures in a row"));
  CHECK(contains(said[0], "exited with code 3"));
}

TEST_CASE("what a worker fails at that never answered is another one's, however few the jobs") {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {"exit 3", "while read line; do " + kAnswer + "; done"};
  WorkerPool pool(options);
  for (int batch = 0; batch < 4; ++batch) {
    const auto results = pool.run(some_jobs(1), [](Record&) {});
    REQUIRE(results.size() == 1);
    CHECK(results[0].outcome == Outcome::ok);
  }
  CHECK(pool.left() == 1);
}

TEST_CASE("where no worker is left jobs have no result") {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {"exit 3", "exit 4"};
  WorkerPool pool(options);
  CHECK(pool.run(some_jobs(12), [](Record&) {}).size() <= 6);
  CHECK(pool.all_out());
  CHECK(pool.run(some_jobs(2), [](Record&) {}).empty());
}

TEST_CASE("a command that can't be started is a crash, not a hang") {
  CHECK(run_with("/no/such/program", 2)[1].outcome == Outcome::crash);
}

TEST_CASE("an answer that is none is a bad answer, and says what is wrong") {
  const std::vector<std::pair<std::string, std::string>> modes = {
      {"negative", "a sample is -5.0 ns"},
      {"zero", "a sample is 0.0 ns"},
      {"tiny", "a sample is 1e-300 ns"},
      {"huge", "a sample is 1e+308 ns"},
      {"nan", "can't be read"},       // no JSON
      {"infinite", "can't be read"},  // likewise
      {"hour", "longer than it took"},
      {"one_bad", "a sample is -1.0 ns"},
      {"no_samples", "no samples"},
      {"null_sample", "something other than numbers"},
      {"text_sample", "something other than numbers"},
      {"nested_sample", "nested"},
      {"scalar_samples", "isn't a list"},
      {"missing_samples", "`samples_ns` is missing"},
      {"many_samples", "at most 10000"},
      {"id_other", "it is one to job"},
      {"id_text", "`id` isn't an integer"},
      {"id_missing", "`id` is missing"},
      {"id_negative", "`id` isn't an integer"},
      {"id_float", "`id` isn't an integer"},
      {"id_huge", "`id` isn't an integer"},
      {"none", "JSON object"},
      {"text", "JSON object"},
      {"object", "`id` is missing"},
      {"deep", "nested"},
      {"outcome", "`great` isn't an outcome"},
      {"error_nan", "can't be read"},
      {"compile_negative", "its compile time is -1.0 ms"},
      {"detail_list", "`detail` isn't a string"},
      {"surrogate", "can't be read"},
      {"garbage", "can't be read"},
      {"empty_line", "can't be read"},
      {"two_lines", "more than one line"},
      {"endless_line", "longer than 1 MiB"},
  };
  for (const auto& [mode, why] : modes) {
    const auto results = run_hostile(mode, 1);
    INFO(mode << ": " << results[0].detail);
    CHECK(results[0].outcome == Outcome::bad_answer);
    CHECK(contains(results[0].detail, why));
    CHECK(results[0].detail.size() < 600);
    CHECK(results[0].samples_ns.empty());
    CHECK(results[0].median_ns == 0);
  }
}

TEST_CASE("of an answer only what the worker alone can know is taken") {
  for (const char* mode : {"right", "lies", "orphan"}) {
    const auto results = run_hostile(mode, 2);
    for (const Record& r : results) {
      INFO(mode << ": " << r.detail);
      CHECK(r.outcome == Outcome::ok);
      CHECK(r.samples_ns == std::vector<double>{1500, 1000, 2000});
      CHECK(r.median_ns == 1500);
      CHECK(r.trace == "schedule {\n}\n");
      CHECK(r.func == "func f() {}");
      CHECK(r.target == "native");
      CHECK(r.threads == 1);
      CHECK(r.workload.empty());
      CHECK(r.host == "h");
    }
  }
  const Record r = run_hostile("controls", 1)[0];
  CHECK(r.outcome == Outcome::illegal);
  CHECK(r.detail == " [2J second line ");
  CHECK(r.host == "a b");
}

TEST_CASE("a line that nobody asked for costs the job at hand, and is no answer to it") {
  const auto results = run_hostile("late_line", 6);
  int ok = 0, bad = 0;
  for (const Record& r : results) {
    INFO(r.detail);
    ok += r.outcome == Outcome::ok;
    bad += r.outcome == Outcome::bad_answer;
    if (r.outcome == Outcome::ok) CHECK(r.median_ns == 1500);
  }
  CHECK(ok >= 1);
  CHECK(bad >= 1);
  CHECK(ok + bad == 6);
}

TEST_CASE("workers that end or never answer cost one job each") {
  for (const char* mode : {"exit", "kill", "close"}) {
    INFO(mode);
    for (const Record& r : run_hostile(mode, 2)) CHECK(r.outcome == Outcome::crash);
  }
  for (const char* mode : {"silent", "half_a_line", "drip", "never_reads"}) {
    INFO(mode);
    for (const Record& r : run_hostile(mode, 1, 0.4)) CHECK(r.outcome == Outcome::timeout);
  }
}

TEST_CASE("a worker that doesn't read can't hold the tuner up") {
  const std::vector<Job> long_ones = some_jobs(1, std::string(1 << 20, 'f'));  // more than a pipe takes
  CHECK(run_with("sleep 1000", long_ones, 0.4)[0].outcome == Outcome::timeout);
  CHECK(run_with("read line; " + kAnswer, long_ones, 20)[0].outcome == Outcome::ok);
}

TEST_CASE("what a worker writes to stderr doesn't hold it up, and its last line is said where it fails") {
  const auto results =
      run_with("while read line; do head -c 3000000 /dev/zero | tr '\\0' x >&2; " + kAnswer + "; done", 3);
  for (const Record& r : results) CHECK(r.outcome == Outcome::ok);
  const Record failed = run_with("printf 'first\ncannot reach \033[2Jboard\n' >&2; exit 3", 1)[0];
  CHECK(failed.detail == "the worker exited with code 3: cannot reach  [2Jboard");
}

TEST_CASE("jobs under way are given up once the run is cut, without waiting") {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {"sleep 1000", "while read line; do " + kAnswer + "; done"};
  WorkerPool pool(options);
  size_t seen = 0;
  RunControl control;
  control.cut = [&] { return seen >= 4; };
  const auto results = pool.run(
      some_jobs(5), [&](Record&) { ++seen; }, control);
  CHECK(results.size() == 4);
  CHECK(pool.left() == 2);
  seen = 0;
  CHECK(pool.run(
                some_jobs(5), [&](Record&) { ++seen; }, control)
            .size() == 4);  // as fresh
}

TEST_CASE("a job goes to the worker that it names, or past the one that it names") {
  const auto says = [](const std::string& host) {
    return R"(while read line; do printf '{"id":%s,"outcome":"ok","samples_ns":[5],"host":")" + host +
           R"("}\n' $(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); done)";
  };
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {says("a"), says("b")};
  WorkerPool pool(options);
  std::vector<Job> jobs = some_jobs(6);
  for (size_t i = 0; i < jobs.size(); ++i) (i < 3 ? jobs[i].only_on : jobs[i].not_on) = 1;
  const auto results = pool.run(jobs, [](Record&) {});
  REQUIRE(results.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(results[i].host == (i < 3 ? "b" : "a"));
    CHECK(pool.how(results[i].id).worker == (i < 3 ? 1 : 0));
  }
}

TEST_CASE("another worker takes over what a slow one has") {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {"sleep 1000", "while read line; do " + kAnswer + "; done"};
  options.timeout_s = 100;
  WorkerPool pool(options);
  for (int run = 0; run < 2; ++run) {
    const auto results = pool.run(some_jobs(3), [](Record&) {});
    REQUIRE(results.size() == 3);
    for (const Record& r : results) CHECK(r.outcome == Outcome::ok);
  }
  CHECK(pool.left() == 2);
  CHECK(pool.most_trusted() == 1);
}

TEST_CASE("a worker that can't be started is out, and others do its jobs") {
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {"while read line; do " + kAnswer + "; done", "exit 1", "exit 2"};
  std::vector<std::string> said;
  options.warn = [&](const std::string& line) { said.push_back(line); };
  WorkerPool pool(options);
  const int next = open("/dev/null", O_RDONLY);
  close(next);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{static_cast<rlim_t>(next) + 8, before.rlim_max};  // one worker's pipes, not two's
  setrlimit(RLIMIT_NOFILE, &few);
  const auto results = pool.run(some_jobs(4), [](Record&) {});
  setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(results.size() == 4);
  for (const Record& r : results) CHECK(r.outcome == Outcome::ok);
  CHECK(pool.left() == 1);
  REQUIRE(said.size() == 2);
  CHECK(contains(said[0],
                 "`exit 1` is out before it began: can't make a pipe for a worker: Too many open files"));
}
