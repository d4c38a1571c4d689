// Records are input: whatever stands in a database, what is compiled is right, and the fastest record that is
// usable is used.
#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/library.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/primitive.h"
#include "tests/tuner/folder.h"

using namespace nestor;

namespace {

const char* const kFunc = R"(func f(in A: f32[12,10], in B: f32[10,16], out Y: f32[12,16]) {
  for i in 12, j in 16, k in 10 {
    block Y(vi: S 12 = i, vj: S 16 = j, vk: R 10 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
)";
const char* const kRight = "j0 j1 = split Y.j [_, 8]\nreorder Y (i j0 k j1)\nvectorize Y.j1\n";

struct Fixture {
  Folder folder;
  PrimFunc func = parse_func(kFunc);
  Target target = host_target();
  std::string path = folder.file("t.db");
  std::vector<std::string> warnings;

  Record record(const std::string& trace, double median) const {
    Record r;
    r.workload = workload_key(func);
    r.func = kFunc;
    r.target = record_target(target);
    r.threads = 1;
    r.trace = trace;
    r.samples_ns = {median};
    r.median_ns = median;
    return r;
  }
  void store(const std::string& trace, double median) {
    Database(path, Database::Mode::create).insert(record(trace, median));
  }
  // What a record is compared with that no search declared the best.
  void store_default() { store(print(default_schedule(func, target)), 1e6); }
  void sql(const std::string& text) const {
    sqlite3* raw = nullptr;
    sqlite3_open(path.c_str(), &raw);
    char* error = nullptr;
    sqlite3_exec(raw, text.c_str(), nullptr, nullptr, &error);
    CHECK(std::string(error ? error : "") == "");
    sqlite3_close(raw);
  }
  std::optional<ScheduleChoice> choice() {
    warnings.clear();
    return database_schedules(path, 1, [&](const std::string& w) { warnings.push_back(w); })(func, target);
  }
};

}  // namespace

TEST_CASE("a record that isn't usable gives way to the next, with a line that says which and why") {
  Fixture f;
  std::ofstream(f.folder.file("mine.nest")) << "no instruction\n";
  std::ofstream(f.folder.file("more.sched")) << "define d(T) {\n}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"frob Y.i\n", "there is no primitive `frob`"},
      {"parallel Y.k\n", "breaks requirement 2 of parallel"},
      {"parallel Z.i\n", "breaks requirement B of every step"},
      {"include \"more.sched\"\n",
       "line 1 of its trace: a record holds primitives only, and `include` is none"},
      {"include \"/etc/passwd\"\n", "`include` is none"},
      {"define d(T) {\n  parallel T.i\n}\n", "`define` is none"},
      {"parallel Y.i\napply gemm_cpu(Y, B)\n",
       "line 2 of its trace: a record holds primitives only, and `apply`"},
      {"tensorize Y.j mine from=\"mine.nest\"\n", "a file of instructions is named by the schedule itself"},
      {"tensorize Y.j mine\n", "there is no instruction `mine`"},
      {"schedule a {\n}\nschedule b {\n}\n", "2 schedules where one is expected"},
      {std::string("parallel Y.i\0\x1b[2J", 18), "\\x00"},
      {"schedule {\n", "closing `}` is missing"},
      {std::string(2 << 20, '#'), "its trace is longer than 1 MiB"},
      {std::string(70000, 'x'), "a line has at most 65536 characters"},
      {"T = cache_write Y local\n", ""},  // refused by lowering
  };
  for (const auto& [trace, why] : cases) {
    std::filesystem::remove(f.path);
    f.store(trace, 10);
    f.store(kRight, 20);
    f.store_default();
    const auto choice = f.choice();
    INFO(trace.substr(0, 100));
    REQUIRE(choice);
    CHECK(print(choice->trace) == print(parse_trace(kRight)));
    CHECK(choice->origin == "database");
    REQUIRE(f.warnings.size() == 1);
    INFO(f.warnings[0]);
    CHECK(f.warnings[0].find("record 1 of " + f.path + " isn't used for f: ") == 0);
    if (why != "\\x00") CHECK(f.warnings[0].find(why) != std::string::npos);
    for (const char c : f.warnings[0]) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST_CASE("a schedule that its primitives let through is proved") {
  Fixture f;
  f.store("parallel Y.k\n", 10);
  schedules::waive({{"parallel", 2}});  // as if a primitive had a hole
  const auto choice = f.choice();
  schedules::waive({});
  CHECK_FALSE(choice);
  REQUIRE(f.warnings.size() == 1);
  CHECK_THAT(f.warnings[0], Catch::Contains("its schedule is wrong"));
}

TEST_CASE("times that no measurement gives don't make a record the best") {
  for (const auto& [value, why] :
       std::vector<std::pair<std::string, std::string>>{{"-5", "its median is -5.0 ns"},
                                                        {"0", "its median is 0.0 ns"},
                                                        {"-9e999", "its median is -inf ns"},
                                                        {"1e-300", "its median is 1e-300 ns"},
                                                        {"x'00'", "its median is 0.0 ns"}}) {
    Fixture f;
    f.store("vectorize Y.j\n", 10);
    f.store(kRight, 20);
    f.store_default();
    f.sql("UPDATE records SET median_ns = " + value + " WHERE id = 1");
    const auto choice = f.choice();
    INFO(value);
    REQUIRE(choice);
    if (value[0] != 'x') {  // a blob comes behind the numbers
      REQUIRE(f.warnings.size() == 1);
      CHECK_THAT(f.warnings[0], Catch::Contains(why));
    }
    CHECK(print(choice->trace) == print(parse_trace(kRight)));
  }
  for (const std::string change : {"samples_ns = '[1, \"x'", "samples_ns = '[-1]'", "samples_ns = x'00ff'",
                                   "samples_ns = '[' || hex(zeroblob(100000)) || ']'", "error = 9e999",
                                   "compile_ms = -1", "error = -1"}) {
    Fixture f;
    f.store("vectorize Y.j\n", 10);
    f.store(kRight, 20);
    f.store_default();
    f.sql("UPDATE records SET " + change + " WHERE id = 1");
    INFO(change);
    const auto choice = f.choice();
    REQUIRE(choice);
    CHECK(f.warnings.size() == 1);
    CHECK(print(choice->trace) == print(parse_trace(kRight)));
    CHECK(Database(f.path, Database::Mode::read).records().size() == 3);  // all can still be listed
  }
}

TEST_CASE("a database full of unusable records ends at the default, soon") {
  Fixture f;
  Database db(f.path, Database::Mode::create);
  std::vector<Record> many;
  for (int i = 0; i < 300; ++i) many.push_back(f.record("parallel Y.k\n", 1 + i));
  db.insert_all(many);
  db.insert(f.record(kRight, 1000));
  CHECK_FALSE(f.choice());
  CHECK(f.warnings.size() == 8);
  CHECK_THAT(f.warnings.back(), Catch::Contains("slower ones aren't tried"));
}

TEST_CASE("a database runs nothing of its own") {
  Fixture f;
  f.store(kRight, 20);
  f.sql("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END");
  f.store(kRight, 30);
  CHECK(Database(f.path, Database::Mode::read).records().size() == 2);
  f.sql("ALTER TABLE records RENAME TO hidden; DROP TRIGGER t; CREATE VIEW records AS SELECT * FROM hidden");
  CHECK_THROWS_AS(f.choice(), UserError);
}

TEST_CASE("the search goes on from usable records only") {
  Fixture f;
  f.store("parallel Y.k\n", 1);
  f.store("include \"/etc/passwd\"\n", 2);
  f.store(kRight, 5);
  f.sql(
      "INSERT INTO records (workload, func, target, threads, trace, outcome, detail, samples_ns, median_ns, "
      "compile_ms, error, seed, version, host) SELECT workload, func, target, threads, 'vectorize Y.j', "
      "outcome, "
      "detail, samples_ns, -1, compile_ms, error, seed, version, host FROM records WHERE id = 1");
  TuneOptions options;
  options.seconds = 10;
  options.trials = 3;
  options.target = f.target;
  options.workers.local = 0;  // answers that each candidate is illegal: only old records are left
  options.workers.commands = {std::string(NESTOR_PYTHON) + " " + NESTOR_SOURCE_DIR +
                              "/tests/tuner/hostile_worker.py controls"};
  options.warn = [&](const std::string& w) { f.warnings.push_back(w); };
  Database db(f.path, Database::Mode::create);
  const TuneResult result = tune({{f.func, 1}}, db, options)[0];
  CHECK(print(result.best) == print(parse_trace(kRight)));
  CHECK(f.warnings.size() == 3);
  CHECK(result.outcomes[static_cast<size_t>(Outcome::illegal)] == result.measured);
}
