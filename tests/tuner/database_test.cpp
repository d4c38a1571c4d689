#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/tune.h"

using namespace nestor;
namespace fs = std::filesystem;

namespace {

// A fresh folder, removed at the end.
struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "nestor-db-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

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

TEST_CASE("the best record is the fastest right one of its workload, target and threads") {
  Folder folder;
  Database db(folder.file("t.db"), Database::Mode::create);
  db.insert(example(50));
  db.insert(example(20, Outcome::wrong_result));
  db.insert(example(30));
  REQUIRE(db.best("abc", "native znver5", 2));
  CHECK(db.best("abc", "native znver5", 2)->median_ns == 30);
  CHECK(db.best("abc", "native znver5", 2)->samples_ns.size() == 2);
  CHECK_FALSE(db.best("abc", "native znver5", 1));
  CHECK_FALSE(db.best("other", "native znver5", 2));
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

TEST_CASE("bad databases are refused with the cause") {
  Folder folder;
  CHECK(message_of([&] {
          Database(folder.file("none.db"), Database::Mode::read);
        }).find("no tuning database") != std::string::npos);
  std::ofstream(folder.file("text.db")) << std::string(4000, 'x');
  CHECK(message_of([&] {
          Database(folder.file("text.db"), Database::Mode::create);
        }).find("not a database") != std::string::npos);
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

  const std::string garbled = folder.file("garbled.db");
  { Database(garbled, Database::Mode::create).insert(example(1)); }
  sqlite3* raw = nullptr;
  sqlite3_open(garbled.c_str(), &raw);
  sqlite3_exec(raw, "UPDATE records SET samples_ns = '[1, \"x'", nullptr, nullptr, nullptr);
  sqlite3_close(raw);
  CHECK(message_of([&] { Database(garbled, Database::Mode::read).records(); }).find("garbled samples") !=
        std::string::npos);

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
