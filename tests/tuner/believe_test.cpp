// What a measurement is taken for: when timing ends, what the null device says, whose claim holds.
#include <sqlite3.h>

#include <chrono>
#include <thread>

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/tune.h"
#include "tests/tuner/folder.h"
#include "tuner/claims.h"
#include "tuner/final.h"
#include "tuner/job.h"

using namespace nestor;

namespace {

const char* const kFunc = R"(func f(in A: f32[64,100], out Y: f32[64,100]) {
  for i in 64, j in 100 {
    block Y(vi: S 64 = i, vj: S 100 = j) {
      Y[vi,vj] = A[vi,vj] + 1.0f32
    }
  }
}
)";

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

void sql(const std::string& path, const std::string& text) {
  sqlite3* raw = nullptr;
  sqlite3_open(path.c_str(), &raw);
  sqlite3_busy_timeout(raw, 5000);
  char* error = nullptr;
  sqlite3_exec(raw, text.c_str(), nullptr, nullptr, &error);
  CHECK(std::string(error ? error : "") == "");
  sqlite3_close(raw);
}

}  // namespace

TEST_CASE("timing ends early where a candidate is clearly slower, and goes on where it can't be told apart") {
  const auto calls = [](double seconds, double cutoff_ns) {
    int count = 0;
    const auto samples = time_calls([&] { sleep_ms(2 + (++count % 2)); }, seconds, cutoff_ns);
    CHECK(samples.size() >= 1);
    return count;
  };
  CHECK(calls(100, 0.1e6) == 2);   // the first call, and another one: it wasn't only cold
  CHECK(calls(100, 1.5e6) <= 10);  // a few samples, all of them slower
  const int alone = calls(0.1, 0);
  CHECK(alone >= 4);
  CHECK(calls(0.1, 2.6e6) > alone + alone / 4);  // between its samples
}

TEST_CASE("a slow function is called few times") {
  int count = 0;
  const auto samples = time_calls(
      [&] {
        ++count;
        sleep_ms(50);
      },
      0.001, 0);
  CHECK(count == 2);
  CHECK(samples.size() == 1);
}

TEST_CASE("the null device answers by the schedule alone") {
  Job job;
  job.func = kFunc;
  job.target = "native";
  job.trace = "schedule {\n  vectorize Y.j\n}\n";
  const Record one = measure_on_null_device(job), two = measure_on_null_device(job);
  CHECK(one.outcome == Outcome::ok);
  CHECK(one.median_ns > 0);
  CHECK(one.samples_ns == two.samples_ns);
  job.trace = "schedule {\n}\n";
  CHECK(measure_on_null_device(job).median_ns > one.median_ns);
  job.trace = "schedule {\n  vectorize Z.j\n}\n";
  CHECK(measure_on_null_device(job).outcome == Outcome::illegal);
}

TEST_CASE("a time shorter than storing the result takes is no answer") {
  Job job;
  job.id = 7;
  job.least_ns = 25;
  const std::string answer = R"({"id":7,"outcome":"ok","samples_ns":[)";
  CHECK(read_answer(job, answer + "1]}", 1e9).outcome == Outcome::bad_answer);
  CHECK(read_answer(job, answer + "30]}", 1e9).outcome == Outcome::ok);
}

TEST_CASE("a claim holds while its owner lives, or on another machine until it must be over") {
  Folder folder;
  const std::string path = folder.file("t.db");
  { Database db(path, Database::Mode::create); }
  Claims mine(path);
  CHECK(mine.claim("f", "a", 10));
  CHECK(mine.claim("f", "a", 10));  // again
  const auto as_elsewhere = [&](const std::string& made, const std::string& until) {
    sql(path, "UPDATE claims SET place = 'elsewhere', made = unixepoch() + " + made +
                  ", until = unixepoch() + " + until);
    return mine.claim("f", "a", 10);
  };
  CHECK_FALSE(as_elsewhere("0", "100"));
  CHECK_FALSE(as_elsewhere("-50", "10"));
  CHECK(as_elsewhere("-200", "-5"));
  CHECK(as_elsewhere("100000", "100100"));  // a clock has jumped
  mine.release("f", "a");
  CHECK(mine.claim("f", "b", 10));
  sql(path, "UPDATE claims SET pid = 1, started = '0'");  // there is such a process, another one
  CHECK(mine.claim("f", "b", 10));
}

TEST_CASE("the comparison says how far its pairs lie apart") {
  Job a;
  a.func = "func f() {}";
  a.trace = "schedule {\n}\n";
  a.target = "native";
  Job b = a;
  b.trace = "other\n";
  WorkerPoolOptions options;
  options.local = 0;
  options.commands = {std::string("exec ") + NESTOR_PYTHON + " " + NESTOR_SOURCE_DIR +
                      "/tests/tuner/hostile_worker.py right"};
  WorkerPool pool(options);
  const Final end = decide({a, b}, pool, 0, [] { return false; });
  CHECK(end.compared);
  CHECK(end.winner == 0);
  CHECK(end.noise == 0);
  CHECK_FALSE(decide({a, b}, pool, 0, [] { return true; }).compared);
}
