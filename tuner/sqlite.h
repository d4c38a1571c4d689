// Statements and connections of SQLite.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>

namespace nestor {

// A prepared statement that binds and reads by position.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql) {
    code_ = sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  int code() const { return code_ == SQLITE_ROW || code_ == SQLITE_DONE ? SQLITE_OK : code_; }
  void bind(const std::string& v) {
    sqlite3_bind_text(statement_, ++index_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT);
  }
  void bind(int64_t v) { sqlite3_bind_int64(statement_, ++index_, v); }
  void bind(double v) { sqlite3_bind_double(statement_, ++index_, v); }
  bool step() {
    if (!statement_) return false;  // `code` says why
    code_ = sqlite3_step(statement_);
    return code_ == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* p = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return p ? std::string(p, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : std::string();
  }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int index_ = 0, code_ = SQLITE_OK;
};

constexpr int kBusyMs = 10000;  // a connection waits for others so long

// Of an open connection, before it reads: it waits for others, and the file, which may be somebody else's,
// doesn't get to run triggers, views or functions of its choice.
inline void set_up(sqlite3* db) {
  sqlite3_busy_timeout(db, kBusyMs);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
}

// Changes the journal to a write-ahead log. SQLite waits for nobody here: what reads and then has to write
// might wait for one that does the same.
inline int use_log(sqlite3* db) {
  constexpr int kStepMs = 5;
  int code = SQLITE_BUSY;
  for (int waited = 0; (code & 0xff) == SQLITE_BUSY && waited < kBusyMs; waited += kStepMs) {
    if (waited > 0) sqlite3_sleep(kStepMs);
    code = sqlite3_exec(db, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  }
  return code;
}

}  // namespace nestor
