// `nestor db`: what tuning found, as a table or as JSON lines.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/parse.h"
#include "src/cli/common.h"
#include "src/cli/db_records.h"

namespace nestor::cli {

namespace {

void print_record(const Record& r, bool json) {
  const std::string bad = bad_figures(r);
  if (json)
    fmt::print("{}\n", to_json_line(r));
  else
    fmt::print("{:6}  {:<28} {:<24} {:2} thr  {:<13} {:>12.3f} us  {}\n", r.id, shown(func_name(r)),
               shown(r.target), r.threads, name_of(r.outcome), r.median_ns / 1e3,
               bad.empty() ? r.detail : "not used: " + bad);
}

void tell(const DbVerb& v, const std::string& done, size_t count, const std::string& where = "") {
  if (v.json)
    fmt::print("{}\n", nlohmann::json{{done, count}}.dump());
  else
    fmt::print("{} {} record{}{}\n", done, count, count == 1 ? "" : "s", where);
}

Record record_of_number(const Database& db, const DbVerb& v) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(v.what.data(), v.what.data() + v.what.size(), id);
  if (error != std::errc() || end != v.what.data() + v.what.size())
    throw UserError(Diagnostic{"db " + v.action + " needs the number of a record, not `" + v.what + "`",
                               {},
                               {},
                               "`nestor db " + v.path + " list` shows them first in each line"});
  for (const Record& r : db.records())
    if (r.id == id) return r;
  throw UserError(fmt::format("{} has no record {}", v.path, id));
}

void list(const Database& db, const DbVerb& v) {
  for (const Record& r : chosen(db, v)) print_record(r, v.json);
}

// As a compiler would take them.
void best(const Database& db, const DbVerb& v) {
  std::map<std::tuple<std::string, std::string, int>, bool> done;
  for (const Record& r : chosen(db, v)) {
    if (r.outcome != Outcome::ok || !done.try_emplace({r.workload, r.target, r.threads}, true).second)
      continue;
    db.by_speed(r.workload, r.target, r.threads, [&](const Record& b) {
      if (!bad_figures(b).empty()) return false;
      print_record(b, v.json);
      if (!v.json) fmt::print("{}\n", shown(b.trace));
      return true;
    });
  }
}

void show(const Database& db, const DbVerb& v) {
  const Record r = record_of_number(db, v);
  if (v.json) return print_record(r, true);
  print_record(r, false);
  std::string samples = "none";
  if (!r.samples_ns.empty()) {
    std::vector<double> sorted = r.samples_ns;
    std::sort(sorted.begin(), sorted.end());
    samples =
        fmt::format("{}, from {:.3f} to {:.3f} us", sorted.size(), sorted.front() / 1e3, sorted.back() / 1e3);
  }
  fmt::print("measured on {} by version {}, seed {}; compiled in {:.1f} ms\nsamples: {}\n", shown(r.host),
             shown(r.version), r.seed, r.compile_ms, samples);
  if (!r.detail.empty()) fmt::print("it failed: {}\n", shown(r.detail));
  if (!r.plan.empty()) fmt::print("plan: {}\n", shown(r.plan));
  fmt::print("{}\n{}", shown(r.func), shown(r.trace));
}

void export_to(const Database& db, const DbVerb& v) {
  std::error_code none;
  if (std::filesystem::equivalent(v.path, v.what, none))
    throw UserError("db export would write over the database " + v.path + ": give FILE another name");
  std::string lines;
  size_t exported = 0;
  for (const Record& r : chosen(db, v)) {
    const std::string bad = bad_figures(r);
    if (!bad.empty()) {
      warn_of_record(fmt::format("record {} of {} is left out: {}", r.id, v.path, bad));
      continue;
    }
    lines += to_json_line(r) + "\n";
    ++exported;
  }
  write_text(v.what, lines);
  tell(v, "exported", exported, " to " + v.what);
}

// The records of a file or a database, all or none, and none twice.
template <class Source>
void add(const DbVerb& v, const std::string& done, const Source& source, const std::string& where) {
  KnownRecords known(v.path);
  const std::vector<Record> records = read_records(source, known);
  Database(v.path, Database::Mode::create).insert_all(records);
  const std::string rest = known.met() ? fmt::format("; {} were there already", known.met()) : "";
  tell(v, done, records.size(), where + rest);
}

void prune(Database& db, const DbVerb& v) {
  if (!v.stale && !v.failed && (v.func != "*" || v.target != "*" || v.threads || !v.outcome.empty()))
    throw UserError(
        Diagnostic{"prune --keep is of all functions: it takes no --func, --target, --threads or --outcome",
                   {},
                   {},
                   "with --stale or --failed they choose what is looked at"});
  if (!v.stale && !v.failed) return tell(v, "removed", static_cast<size_t>(db.prune(v.keep)));
  std::vector<int64_t> ids;
  for (const Record& r : chosen(db, v)) {
    if (r.outcome != Outcome::ok) {
      if (v.failed) ids.push_back(r.id);
      continue;
    }
    if (!v.stale) continue;
    try {
      if (!why_unusable(r, check_imported(r), nullptr).empty()) ids.push_back(r.id);
    } catch (const UserError&) {
      ids.push_back(r.id);  // its function isn't one
    }
  }
  tell(v, "removed", static_cast<size_t>(db.erase(ids)));
}

// Measured again, here and now: a record more.
void retry(Database& db, const DbVerb& v) {
  const Record r = record_of_number(db, v);
  const std::string here = record_target(host_target());
  if (r.target != here)
    throw UserError(
        Diagnostic{"record " + v.what + " is of `" + r.target + "`; this machine is `" + here + "`",
                   {},
                   {},
                   "a worker on such a machine can measure it"});
  Job job;
  job.id = 1;
  job.func = r.func;
  job.trace = r.trace;
  job.target = r.target.substr(0, r.target.find(' '));
  job.threads = r.threads;
  job.seed = r.seed;
  std::vector<Record> results = WorkerPool({}).run({job}, [](Record&) {});
  if (results.empty()) throw UserError("the worker gave no answer");
  Record again = results.front();
  again.workload = r.workload;
  again.target = r.target;
  again.plan = r.plan;
  again.id = db.insert(again);
  print_record(r, v.json);
  print_record(again, v.json);
}

}  // namespace

int run(const DbVerb& v) {
  const std::map<std::string, std::string> needs = {{"show", "the number of a record"},
                                                    {"retry", "the number of a record"},
                                                    {"export", "a FILE of JSON lines"},
                                                    {"import", "a FILE of JSON lines"},
                                                    {"merge", "another database"}};
  if (const auto need = needs.find(v.action); need != needs.end() && v.what.empty())
    throw UserError("db " + v.action + " needs " + need->second);
  if (v.action == "import") return add(v, "imported", v.what, " into " + v.path), 0;
  if (v.action == "merge")
    return add(v, "merged", Database(v.what, Database::Mode::read), " of " + v.what), 0;
  const bool writes = v.action == "prune" || v.action == "retry";
  if (writes && !std::filesystem::exists(v.path))
    Database(v.path, Database::Mode::read);  // says what is missing
  Database db(v.path, writes ? Database::Mode::create : Database::Mode::read);
  if (v.action == "list") list(db, v);
  if (v.action == "best") best(db, v);
  if (v.action == "show") show(db, v);
  if (v.action == "export") export_to(db, v);
  if (v.action == "prune") prune(db, v);
  if (v.action == "retry") retry(db, v);
  return 0;
}

}  // namespace nestor::cli
