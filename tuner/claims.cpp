// An owner on this machine is dead if its process is: the process id is stored with its start time, since ids
// are reused. For an owner elsewhere (another machine or container that shares the file), or a stopped one,
// only the clock tells: its claim ends when the measurement must be long over, or if it was made in the
// future because a clock was changed.
//
// Claims needn't survive a power failure, so they don't wait for the disk.
#include "tuner/claims.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "nestor/error.h"
#include "tuner/sqlite.h"

namespace nestor {

namespace {

constexpr double kSlackSeconds = 60;
constexpr const char* kTable =
    "CREATE TABLE IF NOT EXISTS claims (of TEXT NOT NULL, trace TEXT NOT NULL, place TEXT NOT NULL, "
    "pid INTEGER NOT NULL, started TEXT NOT NULL, made REAL NOT NULL, until REAL NOT NULL, "
    "PRIMARY KEY (of, trace))";

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// When the process was started, in ticks since the machine was; empty where there is none.
std::string started(int64_t pid) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = stat.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return "";
  std::istringstream rest(stat.substr(name_end + 1));
  std::string word;
  for (int field = 3; field <= 22 && rest >> word; ++field)
    if (field == 3 && (word == "Z" || word == "X")) return "";
  return word;
}

// Where a process id means the same process.
std::string here() {
  std::error_code none;
  return first_line("/proc/sys/kernel/random/boot_id") + " " +
         std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct Claims::Impl {
  sqlite3* db = nullptr;
  std::string path, place = here(), start = started(getpid());
  int64_t pid = getpid();

  ~Impl() { sqlite3_close(db); }
  void check(int code) const {
    if (code == SQLITE_OK) return;
    throw UserError(Diagnostic{"the tuning database " + path + " can't be written: " + sqlite3_errmsg(db),
                               {path, 0, 0, 1, ""},
                               {},
                               "tuning stores each result as it comes; give another --db"});
  }
  // Binds the words, in order, and does it; whether a row was changed.
  template <class... Words>
  bool change(const char* sql, const Words&... words) {
    Statement s(db, sql);
    check(s.code());
    (s.bind(words), ...);
    s.step();
    check(s.code());
    return sqlite3_changes(db) > 0;
  }
  bool is_over(const Statement& row) const {
    const std::string start_then = row.text(2);
    if (row.text(0) == place && (start_then.empty() || started(row.integer(1)) != start_then)) return true;
    const double t = now();
    return t < row.real(3) - kSlackSeconds || t > row.real(4);
  }
};

Claims::Claims(const std::string& database) : impl_(std::make_unique<Impl>()) {
  impl_->path = database;
  impl_->check(sqlite3_open_v2(database.c_str(), &impl_->db, SQLITE_OPEN_READWRITE, nullptr));
  set_up(impl_->db);
  impl_->change("PRAGMA synchronous=NORMAL");
  impl_->change(kTable);
}

Claims::~Claims() {
  constexpr double kAtTheEnd = 0.3;  // seconds
  wait_at_most(kAtTheEnd);
  try {
    impl_->change("DELETE FROM claims WHERE place = ? AND pid = ? AND started = ?", impl_->place, impl_->pid,
                  impl_->start);
  } catch (const UserError&) {  // then they end with this process
  }
}

bool Claims::claim(const std::string& of, const std::string& trace, double seconds) {
  Impl& i = *impl_;
  const double made = now(), until = made + 2 * seconds + kSlackSeconds;
  if (i.change("INSERT OR IGNORE INTO claims (of, trace, place, pid, started, made, until) "
               "VALUES (?, ?, ?, ?, ?, ?, ?)",
               of, trace, i.place, i.pid, i.start, made, until))
    return true;
  std::string place, start;
  int64_t pid = 0;
  {
    Statement s(i.db, "SELECT place, pid, started, made, until FROM claims WHERE of = ? AND trace = ?");
    i.check(s.code());
    s.bind(of);
    s.bind(trace);
    if (!s.step()) {  // given up since: asked again later
      i.check(s.code());
      return false;
    }
    place = s.text(0);
    pid = s.integer(1);
    start = s.text(2);
    const bool ours = place == i.place && pid == i.pid && start == i.start;
    if (!ours && !i.is_over(s)) return false;
  }
  return i.change(
      "UPDATE claims SET place = ?, pid = ?, started = ?, made = ?, until = ? "
      "WHERE of = ? AND trace = ? AND place = ? AND pid = ? AND started = ?",
      i.place, i.pid, i.start, made, until, of, trace, place, pid, start);
}

void Claims::wait_at_most(double seconds) {
  sqlite3_busy_timeout(impl_->db, std::min(kBusyMs, static_cast<int>(seconds * 1000)));
}

void Claims::release(const std::string& of, const std::string& trace) {
  Impl& i = *impl_;
  i.change("DELETE FROM claims WHERE of = ? AND trace = ? AND place = ? AND pid = ? AND started = ?", of,
           trace, i.place, i.pid, i.start);
}

}  // namespace nestor
