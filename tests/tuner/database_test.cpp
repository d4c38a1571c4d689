#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/tune.h"
#include "tests/tuner/folder.h"

using namespace nestor;
namespace fs = std::filesystem;

namespace {

Record example(double median, Outcome outcome = Outcome::ok) {
  Record r;
  r.workload = "abc";
  r.func = "func f() {}";
  r.target = "native znver5";
  r.threads = 2;
  r.trace = "vectorize \"T\".x\n";
  r.outcome = outcome;
  r.samples_ns = {median, median * 1.1};
  r.median_ns = median;
  return r;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("right records of a workload, target and threads come the fastest first") {
  Folder folder;
  Database db(folder.file("t.db"), Database::Mode::create);
  db.insert(example(50));
  db.insert(example(20, Outcome::wrong_result));
  db.insert(example(30));
  const auto medians = [&](const std::string& workload, int threads) {
    std::vector<double> out;
    db.by_speed(workload, "native znver5", threads, [&](const Record& r) {
      CHECK(r.samples_ns.size() == 2);
      out.push_back(r.median_ns);
      return false;
    });
    return out;
  };
  CHECK(medians("abc", 2) == std::vector<double>{30, 50});
  CHECK(medians("abc", 1).empty());
  CHECK(medians("other", 2).empty());
  CHECK(db.records().size() == 3);
  CHECK(db.prune(1) == 2);
  CHECK(db.records().at(0).median_ns == 30);
}

TEST_CASE("records survive the round trip through JSON lines") {
  const Record r = example(12.5);
  const Record s = record_from_json(to_json_line(r));
  CHECK(s.trace == r.trace);
  CHECK(s.samples_ns == r.samples_ns);
  CHECK(s.outcome == r.outcome);
  CHECK(message_of([] { record_from_json("{\"workload\":1}"); }).find("can't be read") != std::string::npos);
  CHECK(message_of([] { record_from_json("{"); }).find("can't be read") != std::string::npos);
}

TEST_CASE("a line with figures or fields that no record has is refused by their names") {
  const std::string right = to_json_line(example(12.5));
  CHECK_NOTHROW(record_from_json(right));
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string line = right;
    const size_t at = line.find(from);
    REQUIRE(at != std::string::npos);
    line.replace(at, from.size(), to);
    return message_of([&] { record_from_json(line); });
  };
  const std::string median = "\"median_ns\":12.5", threads = "\"threads\":2";
  CHECK_THAT(refusal(median, "\"median_ns\":-5"), Catch::Contains("its median is -5.0 ns"));
  CHECK_THAT(refusal(median, "\"median_ns\":0"), Catch::Contains("its median is 0.0 ns"));
  CHECK_THAT(refusal(median, "\"median_ns\":1e300"), Catch::Contains("its median is 1e+300 ns"));
  CHECK_THAT(refusal(median, "\"median_ns\":1e999"), Catch::Contains("can't be read"));
  CHECK_THAT(refusal(median, "\"median_ns\":null"), Catch::Contains("`median_ns` isn't a number"));
  CHECK_THAT(refusal("[12.5,", "[-1,"), Catch::Contains("a sample is -1.0 ns"));
  CHECK_THAT(refusal("[12.5,", "[[12.5],"), Catch::Contains("nested"));
  CHECK_THAT(refusal(threads, "\"threads\":0"), Catch::Contains("`threads` isn't an integer from 1"));
  CHECK_THAT(refusal(threads, "\"threads\":2.5"), Catch::Contains("`threads` isn't an integer"));
  CHECK_THAT(refusal(threads, "\"threads\":1e30"), Catch::Contains("`threads` isn't an integer"));
  CHECK_THAT(refusal(threads, "\"threads\":99999999999999999999"),
             Catch::Contains("`threads` isn't an integer"));
  CHECK_THAT(refusal("\"seed\":0", "\"seed\":-1"), Catch::Contains("`seed` isn't an integer"));
  CHECK_THAT(refusal("\"ok\"", "\"fine\""), Catch::Contains("`fine` isn't an outcome"));
  CHECK_THAT(message_of([] { record_from_json("[1, 2]"); }), Catch::Contains("JSON object"));
  CHECK_THAT(message_of([] { record_from_json(std::string(100000, '[')); }), Catch::Contains("nested"));
}

TEST_CASE("what was declared best comes before what was faster once") {
  Folder folder;
  Database db(folder.file("t.db"), Database::Mode::create);
  for (const double ns : {10.0, 20.0, 30.0}) {
    Record r = example(ns);
    r.trace = "schedule {\n}\n# " + std::to_string(ns);
    db.insert(r);
  }
  const Record like = example(1);
  const auto best = [&] {
    double ns = 0;
    db.by_speed(like.workload, like.target, like.threads, [&](const Record& r) {
      ns = r.median_ns;
      return true;
    });
    return ns;
  };
  CHECK(best() == 10);
  for (const double ns : {20.0, 30.0}) {
    db.declare_best(like.workload, like.target, like.threads, "schedule {\n}\n# " + std::to_string(ns));
    CHECK(best() == ns);
  }
  CHECK(db.prune(1) == 2);
  CHECK(best() == 30);
}

TEST_CASE("a database of the format without plans is read, and made the new one for writing") {
  Folder folder;
  const std::string path = folder.file("old.db");
  {
    Database db(path, Database::Mode::create);
    db.insert(example(10));
  }
  sqlite3* raw = nullptr;
  sqlite3_open(path.c_str(), &raw);
  REQUIRE(sqlite3_exec(raw,
                       "ALTER TABLE records DROP COLUMN plan; ALTER TABLE records DROP COLUMN declared; "
                       "PRAGMA user_version=1",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
  CHECK(Database(path, Database::Mode::read).records().at(0).plan.empty());
  {
    Database db(path, Database::Mode::create);
    Record r = example(20);
    r.plan = "any T.tail=peel";
    db.insert(r);
  }
  const std::vector<Record> all = Database(path, Database::Mode::read).records();
  REQUIRE(all.size() == 2);
  CHECK(all[0].plan.empty());
  CHECK(all[1].plan == "any T.tail=peel");
  CHECK(record_from_json(to_json_line(all[1])).plan == all[1].plan);
}

TEST_CASE("bad databases are refused with the cause") {
  Folder folder;
  CHECK(message_of([&] {
          Database(folder.file("none.db"), Database::Mode::read);
        }).find("no tuning database") != std::string::npos);
  std::ofstream(folder.file("text.db")) << std::string(4000, 'x');
  CHECK(message_of([&] {
          Database(folder.file("text.db"), Database::Mode::create);
        }).find("not a database") != std::string::npos);
  try {
    Database(folder.file("text.db"), Database::Mode::create);
  } catch (const UserError& e) {
    CHECK_THAT(e.diagnostic().hint, Catch::Contains("it isn't a SQLite file"));
  }
  CHECK(message_of([&] { Database("/proc/nowhere/t.db", Database::Mode::create); }).find("can't be used") !=
        std::string::npos);

  const auto with_pragma = [&](const char* sql) {
    const std::string path = folder.file("v.db");
    fs::remove(path);
    { Database db(path, Database::Mode::create); }
    sqlite3* raw = nullptr;
    sqlite3_open(path.c_str(), &raw);
    sqlite3_exec(raw, sql, nullptr, nullptr, nullptr);
    sqlite3_close(raw);
    return message_of([&] { Database db(path, Database::Mode::create); });
  };
  CHECK(with_pragma("PRAGMA user_version=99").find("format 99") != std::string::npos);
  CHECK(with_pragma("PRAGMA application_id=7").find("no tuning database of Nestor") != std::string::npos);

  const std::string cut = folder.file("cut.db");
  {
    Database db(cut, Database::Mode::create);
    for (int i = 0; i < 200; ++i) db.insert(example(i + 1));
  }
  fs::resize_file(cut, fs::file_size(cut) / 2);
  CHECK_FALSE(message_of([&] { Database(cut, Database::Mode::read).records(); }).empty());
  fs::resize_file(cut, 100);
  CHECK(message_of([&] { Database(cut, Database::Mode::create); }).find("truncated") != std::string::npos);
}

TEST_CASE("what insert returned for is there after SIGKILL") {
  Folder folder;
  const std::string path = folder.file("k.db");
  { Database db(path, Database::Mode::create); }
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Database db(path, Database::Mode::create);
    for (int64_t i = 1;; ++i) {
      const int64_t id = db.insert(example(static_cast<double>(i)));
      if (write(fds[1], &id, sizeof id) != sizeof id) _exit(1);
    }
  }
  close(fds[1]);
  int64_t reported = 0, id = 0;
  while (reported < 40 && read(fds[0], &id, sizeof id) == sizeof id) reported = id;
  kill(child, SIGKILL);
  while (read(fds[0], &id, sizeof id) == sizeof id) reported = id;
  int status = 0;
  waitpid(child, &status, 0);
  close(fds[0]);
  REQUIRE(WIFSIGNALED(status));
  Database db(path, Database::Mode::create);
  CHECK(reported >= 40);
  CHECK(static_cast<int64_t>(db.records().size()) >= reported);
  db.insert(example(1));
}

TEST_CASE("several may make a database at the same time, and each has its record in it") {
  constexpr int kRounds = 150, kMakers = 4;
  Folder folder;
  for (int round = 0; round < kRounds; ++round) {
    const std::string path = folder.file(std::to_string(round) + ".db");
    std::vector<pid_t> makers;
    for (int i = 0; i < kMakers; ++i) {
      makers.push_back(fork());
      if (makers.back() != 0) continue;
      int failed = 0;
      try {
        Database db(path, Database::Mode::create);
        db.insert(example(1));
      } catch (const UserError& e) {
        fprintf(stderr, "%s\n", e.what());
        failed = 1;
      }
      _exit(failed);
    }
    int failed = 0;
    for (const pid_t maker : makers) {
      int status = 0;
      waitpid(maker, &status, 0);
      failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    INFO("round " << round);
    REQUIRE(failed == 0);
    REQUIRE(Database(path, Database::Mode::read).records().size() == kMakers);
  }
}
