// The tuning database: one SQLite file in WAL mode, one row per measured candidate. A row is committed before
// insert() returns, so a kill at any moment loses nothing that was reported. Several processes may write at
// once: SQLite serializes them, and each waits for the others up to kBusyMs.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/tune.h"
#include "tuner/fields.h"
#include "tuner/job.h"
#include "tuner/sqlite.h"

namespace nestor {

namespace {

constexpr int kFormat = 2;        // PRAGMA user_version
constexpr int kWithoutPlans = 1;  // the format before, which is read, and made the new one for writing
constexpr int kApplication = 0x4e737472;  // PRAGMA application_id, "Nstr"

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY,
  workload TEXT NOT NULL, func TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL,
  trace TEXT NOT NULL, outcome TEXT NOT NULL, detail TEXT NOT NULL,
  samples_ns TEXT NOT NULL, median_ns REAL NOT NULL, compile_ms REAL NOT NULL, error REAL NOT NULL,
  seed INTEGER NOT NULL, version TEXT NOT NULL, host TEXT NOT NULL,
  created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, plan TEXT NOT NULL DEFAULT '',
  declared INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS by_workload ON records (workload, target, threads, outcome, median_ns);
)";

constexpr const char* kColumns =
    "id, workload, func, target, threads, trace, outcome, detail, samples_ns, median_ns, compile_ms, error, "
    "seed, version, host";

int64_t pragma(sqlite3* db, const char* name) {
  Statement s(db, std::string("PRAGMA ") + name);
  return s.step() ? s.integer(0) : 0;
}

}  // namespace

struct Database::Impl {
  sqlite3* db = nullptr;
  std::string path;
  int64_t format = kFormat;

  ~Impl() { sqlite3_close(db); }

  [[noreturn]] void fail(int code) const {
    Diagnostic d{
        "the tuning database " + path + " can't be used: " + sqlite3_errmsg(db), {path, 0, 0, 1, ""}, {}, ""};
    switch (code & 0xff) {
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        d.hint = "another process holds it; wait for it, or give another --db";
        break;
      case SQLITE_NOTADB:
      case SQLITE_CORRUPT:
        d.hint = "it isn't a SQLite file, or it is truncated; export from a backup, or give another --db";
        break;
      case SQLITE_CANTOPEN:
        d.hint = "the file or its folder is missing, or not readable";
        break;
      case SQLITE_READONLY:
      case SQLITE_PERM:
        d.hint = "the file or its folder can't be written";
        break;
      case SQLITE_FULL:
        d.hint = "the disk is full; what was stored before isn't lost";
        break;
      default:
        break;
    }
    throw UserError(d);
  }
  void check(int code) const {
    if (code != SQLITE_OK) fail(code);
  }
  int64_t count_tables() const {
    Statement s(db, "SELECT count(*) FROM sqlite_master");
    const bool row = s.step();
    check(s.code());
    return row ? s.integer(0) : 0;
  }
  // The rows for which `condition` holds, as read_row takes them.
  std::string select(const char* condition) const {
    return fmt::format("SELECT {}, {} FROM records WHERE {}", kColumns,
                       format == kWithoutPlans ? "'', 0" : "plan, declared", condition);
  }
  void add_plans() {
    execute("BEGIN IMMEDIATE");
    // Another process may have done it since.
    if (pragma(db, "user_version") == kWithoutPlans) {
      execute("ALTER TABLE records ADD COLUMN plan TEXT NOT NULL DEFAULT ''");
      execute("ALTER TABLE records ADD COLUMN declared INTEGER NOT NULL DEFAULT 0");
      execute(("PRAGMA user_version=" + std::to_string(kFormat)).c_str());
    }
    execute("COMMIT");
  }
  void execute(const char* sql) { check(sqlite3_exec(db, sql, nullptr, nullptr, nullptr)); }
};

namespace {

// None where the text isn't a list of numbers.
std::vector<double> read_samples(const std::string& text) {
  try {
    return Fields("{\"samples\": " + text + "}", "samples", "").numbers("samples", kMostSamples);
  } catch (const UserError&) {
    return {};
  }
}

Record read_row(const Statement& s) {
  Record r;
  r.id = s.integer(0);
  r.workload = s.text(1);
  r.func = s.text(2);
  r.target = s.text(3);
  r.threads = static_cast<int>(std::clamp<int64_t>(s.integer(4), 0, INT32_MAX));
  r.trace = s.text(5);
  r.outcome = parse_outcome(s.text(6)).value_or(Outcome::crash);
  r.detail = one_line(s.text(7), kLongestDetail);
  r.samples_ns = read_samples(s.text(8));
  r.median_ns = s.real(9);
  r.compile_ms = s.real(10);
  r.error = s.real(11);
  r.seed = static_cast<uint64_t>(s.integer(12));
  r.version = one_line(s.text(13), 256);
  r.host = one_line(s.text(14), 256);
  r.plan = s.text(15);
  r.declared = s.integer(16);
  return r;
}

}  // namespace

namespace {

// The path as a URI has it.
std::string uri_path(const std::string& path) {
  std::string out;
  for (const char c : std::filesystem::absolute(path).string())
    out += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02x}", static_cast<unsigned char>(c))
                                            : std::string(1, c);
  return out;
}

// What can be said before SQLite looks.
void check_file(const std::string& path, Database::Mode mode) {
  namespace fs = std::filesystem;
  std::error_code no_status, no_size;
  const fs::file_status status = fs::status(path, no_status);
  const Diagnostic none{
      "there is no tuning database " + path, {}, {}, "`nestor tune MODEL --db " + path + "` makes one"};
  if (!fs::exists(status)) {
    if (mode == Database::Mode::read) throw UserError(none);
    return;
  }
  if (!fs::is_regular_file(status))
    throw UserError(Diagnostic{path + " isn't a regular file", {}, {}, "give another --db"});
  const uintmax_t size = fs::file_size(path, no_size);
  if (mode == Database::Mode::create && !no_size && size > 0 && size < 512)
    throw UserError(
        Diagnostic{path + " isn't a tuning database, or a truncated one", {}, {}, "give another --db"});
}

}  // namespace

Database::Database(const std::string& path, Mode mode) : impl_(std::make_unique<Impl>()), path_(path) {
  impl_->path = path;
  check_file(path, mode);
  const int flags = mode == Mode::create ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
  int code = sqlite3_open_v2(path.c_str(), &impl_->db, flags, nullptr);
  if (mode == Mode::read && (code & 0xff) == SQLITE_CANTOPEN) {  // a read-only folder
    sqlite3_close(impl_->db);
    code = sqlite3_open_v2(path.c_str(), &impl_->db, SQLITE_OPEN_READONLY, nullptr);
  }
  // Of what can't be written SQLite reads no write-ahead log: where there is none the file is all there is.
  const bool fixed = mode == Mode::read && code == SQLITE_OK && sqlite3_db_readonly(impl_->db, "main") == 1;
  if (fixed && !std::filesystem::exists(path + "-wal")) {
    sqlite3_close(impl_->db);
    code = sqlite3_open_v2(("file:" + uri_path(path) + "?immutable=1").c_str(), &impl_->db,
                           SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  }
  impl_->check(code);
  set_up(impl_->db);
  // What another one that makes it now has committed is seen whole or not at all.
  impl_->execute("BEGIN");
  const int64_t tables =
      impl_->count_tables();  // the first read: finds out whether this is a database at all
  const int64_t application = pragma(impl_->db, "application_id"), format = pragma(impl_->db, "user_version");
  impl_->execute("COMMIT");
  const bool fresh = tables == 0 && application == 0 && format == 0;
  if (!fresh && application != kApplication)
    throw UserError(Diagnostic{
        path + " is a SQLite file, but no tuning database of Nestor", {}, {}, "give another --db"});
  if (!fresh && format != kFormat && format != kWithoutPlans)
    throw UserError(
        Diagnostic{path + " is a tuning database of format " + std::to_string(format) +
                       "; this version reads format " + std::to_string(kFormat),
                   {},
                   {},
                   "export it with the version that wrote it, import the JSON lines into a new one"});
  if (fresh && mode == Mode::create) {
    impl_->check(use_log(impl_->db));
    impl_->execute("BEGIN IMMEDIATE");
    impl_->execute(kSchema);
    impl_->execute(("PRAGMA application_id=" + std::to_string(kApplication)).c_str());
    impl_->execute(("PRAGMA user_version=" + std::to_string(kFormat)).c_str());
    impl_->execute("COMMIT");
  } else if (format == kWithoutPlans && mode == Mode::create) {
    impl_->add_plans();
  } else {
    impl_->format = fresh ? kFormat : format;
  }
  impl_->execute("PRAGMA cell_size_check=ON");
  impl_->execute("PRAGMA synchronous=FULL");
}

Database::~Database() = default;

int64_t Database::insert(const Record& r) {
  Statement s(
      impl_->db,
      "INSERT INTO records (workload, func, target, threads, trace, outcome, detail, samples_ns, median_ns, "
      "compile_ms, error, seed, version, host, plan, declared) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  impl_->check(s.code());
  s.bind(r.workload);
  s.bind(r.func);
  s.bind(r.target);
  s.bind(int64_t{r.threads});
  s.bind(r.trace);
  s.bind(std::string(name_of(r.outcome)));
  s.bind(r.detail);
  s.bind(nlohmann::json(r.samples_ns).dump());
  s.bind(r.median_ns);
  s.bind(r.compile_ms);
  s.bind(r.error);
  s.bind(static_cast<int64_t>(r.seed));
  s.bind(r.version);
  s.bind(r.host);
  s.bind(r.plan);
  s.bind(std::min<int64_t>(r.declared, 1));  // another database counts for itself
  s.step();
  impl_->check(s.code());
  return sqlite3_last_insert_rowid(impl_->db);
}

void Database::revise(const Record& r) {
  Statement s(impl_->db, "UPDATE records SET outcome=?, detail=?, samples_ns=?, median_ns=? WHERE id=?");
  impl_->check(s.code());
  s.bind(std::string(name_of(r.outcome)));
  s.bind(r.detail);
  s.bind(nlohmann::json(r.samples_ns).dump());
  s.bind(r.median_ns);
  s.bind(r.id);
  s.step();
  impl_->check(s.code());
}

std::optional<Record> Database::find_right(const std::string& workload, const std::string& target,
                                           int threads, const std::string& trace) const {
  Statement s(impl_->db, impl_->select("workload = ? AND target = ? AND threads = ? AND outcome = 'ok' AND "
                                       "trace = ? ORDER BY median_ns, id LIMIT 1"));
  impl_->check(s.code());
  s.bind(workload);
  s.bind(target);
  s.bind(int64_t{threads});
  s.bind(trace);
  if (s.step()) return read_row(s);
  impl_->check(s.code());
  return std::nullopt;
}

void Database::wait_at_most(double seconds) {
  sqlite3_busy_timeout(impl_->db, std::min(kBusyMs, static_cast<int>(seconds * 1000)));
}

void Database::insert_all(const std::vector<Record>& records) {
  impl_->execute("BEGIN IMMEDIATE");
  try {
    for (const Record& r : records) insert(r);
    impl_->execute("COMMIT");
  } catch (const UserError&) {
    sqlite3_exec(impl_->db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

std::vector<Record> Database::records(const std::string& workload, const std::string& target,
                                      int threads) const {
  Statement s(impl_->db, impl_->select("(?1 = '' OR workload = ?1) AND (?2 = '' OR target = ?2) AND "
                                       "(?3 = 0 OR threads = ?3) ORDER BY id"));
  impl_->check(s.code());
  s.bind(workload);
  s.bind(target);
  s.bind(int64_t{threads});
  std::vector<Record> out;
  while (s.step()) out.push_back(read_row(s));
  impl_->check(s.code());
  return out;
}

void Database::by_speed(const std::string& workload, const std::string& target, int threads,
                        const std::function<bool(const Record&)>& taken) const {
  const std::string condition = "workload = ? AND target = ? AND threads = ? AND outcome = 'ok' ORDER BY ";
  const bool declares = impl_->format != kWithoutPlans;
  Statement s(impl_->db,
              impl_->select((condition + (declares ? "declared DESC, " : "") + "median_ns, id").c_str()));
  impl_->check(s.code());
  s.bind(workload);
  s.bind(target);
  s.bind(int64_t{threads});
  while (s.step())
    if (taken(read_row(s))) return;
  impl_->check(s.code());
}

std::vector<Record> Database::best_of_others(const std::string& workload, const std::string& target,
                                             int threads) const {
  std::vector<Record> out;
  if (impl_->format == kWithoutPlans) return out;
  Statement s(
      impl_->db,
      impl_->select("id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY workload ORDER "
                    "BY median_ns, id) AS place FROM records WHERE workload <> ? AND target = ? AND "
                    "threads = ? AND outcome = 'ok' AND plan <> '') WHERE place = 1) ORDER BY id"));
  impl_->check(s.code());
  s.bind(workload);
  s.bind(target);
  s.bind(int64_t{threads});
  while (s.step()) out.push_back(read_row(s));
  impl_->check(s.code());
  return out;
}

void Database::declare_best(const std::string& workload, const std::string& target, int threads,
                            const std::string& trace) {
  Statement s(
      impl_->db,
      "UPDATE records SET declared = (SELECT max(declared) + 1 FROM records) WHERE id = (SELECT id FROM "
      "records WHERE workload = ? AND target = ? AND threads = ? AND outcome = 'ok' AND trace = ? ORDER "
      "BY median_ns, id LIMIT 1)");
  impl_->check(s.code());
  s.bind(workload);
  s.bind(target);
  s.bind(int64_t{threads});
  s.bind(trace);
  s.step();
  impl_->check(s.code());
}

int64_t Database::prune(int keep) {
  Statement s(
      impl_->db,
      "DELETE FROM records WHERE id NOT IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY "
      "workload, target, threads ORDER BY outcome <> 'ok', declared DESC, median_ns, id) AS place FROM "
      "records) WHERE place "
      "<= ?)");
  impl_->check(s.code());
  s.bind(int64_t{keep});
  s.step();
  impl_->check(s.code());
  return sqlite3_changes(impl_->db);
}

int64_t Database::erase(const std::vector<int64_t>& ids) {
  impl_->execute("BEGIN IMMEDIATE");
  int64_t erased = 0;
  for (const int64_t id : ids) {
    Statement s(impl_->db, "DELETE FROM records WHERE id = ?");
    s.bind(id);
    s.step();
    if (s.code() != SQLITE_OK) {
      sqlite3_exec(impl_->db, "ROLLBACK", nullptr, nullptr, nullptr);
      impl_->fail(s.code());
    }
    erased += sqlite3_changes(impl_->db);
  }
  impl_->execute("COMMIT");
  return erased;
}

std::string record_target(const Target& target) {
  return target.name + " " + (target.cpu.empty() ? target.sm : target.cpu);
}

}  // namespace nestor
