// `nestor db`: what tuning found, as a table or as JSON lines.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "nestor/error.h"
#include "nestor/parse.h"
#include "src/cli/common.h"
#include "src/cli/db_records.h"
#include "src/cli/outputs.h"
#include "src/cli/timing.h"
#include "src/cli/tune_report.h"

namespace nestor::cli {

namespace {

// A line for each, in columns as wide as they need be.
class RecordTable {
 public:
  explicit RecordTable(bool json) : json_(json) {}
  void add(const Record& r) {
    if (json_) return fmt::print("{}\n", to_json_line(r));
    const std::string bad = bad_figures(r);
    const bool right = r.outcome == Outcome::ok && bad.empty();
    rows_.push_back({std::to_string(r.id), shown(func_name(r)), shown(r.target), std::to_string(r.threads),
                     name_of(r.outcome), right ? time_text(r.median_ns / 1e6) : "-",
                     !bad.empty()     ? "not used: " + bad
                     : !right         ? shown(r.detail)
                     : r.plan.empty() ? ""
                                      : "plan of " + shown(r.plan.substr(0, r.plan.find(' ')))});
    if (r.declared == 0) return;
    auto& [declared, row] = declared_[{r.workload, r.target, r.threads}];
    if (r.declared > declared) std::tie(declared, row) = std::make_pair(r.declared, rows_.size() - 1);
  }
  void print() {
    if (json_ || rows_.empty()) return;
    for (const auto& [of, last] : declared_)
      rows_[last.second].back() = "best of a search" +
                                  std::string(rows_[last.second].back().empty() ? "" : ", ") +
                                  rows_[last.second].back();
    rows_.insert(rows_.begin(), {"id", "function", "target", "threads", "outcome", "time", ""});
    std::array<size_t, kColumns> width{};
    for (const Row& row : rows_)
      for (size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], row[i].size());
    for (const Row& row : rows_) {
      std::string line;
      for (size_t i = 0; i + 1 < kColumns; ++i) {
        const bool number = i == 0 || i == 3 || i == 5;
        line +=
            number ? fmt::format("{:>{}}  ", row[i], width[i]) : fmt::format("{:<{}}  ", row[i], width[i]);
      }
      line += row.back();
      fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
    }
    rows_.clear();
  }

 private:
  static constexpr size_t kColumns = 7;
  using Row = std::array<std::string, kColumns>;
  bool json_;
  std::vector<Row> rows_;
  // Of each function, target and number of threads the one that was declared last, and its row.
  std::map<std::tuple<std::string, std::string, int>, std::pair<int64_t, size_t>> declared_;
};

void print_record(const Record& r, bool json) {
  RecordTable table(json);
  table.add(r);
  table.print();
}

void tell(const DbVerb& v, const std::string& done, size_t count, const std::string& where = "") {
  if (v.json)
    fmt::print("{}\n", nlohmann::json{{done, count}}.dump());
  else
    fmt::print("{} {}{}\n", done, counted(count, "record"), where);
}

Record record_of_number(const Database& db, const DbVerb& v) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(v.what.data(), v.what.data() + v.what.size(), id);
  if (error != std::errc() || end != v.what.data() + v.what.size())
    throw UserError(Diagnostic{"db " + v.action + " needs the number of a record, not `" + v.what + "`",
                               {},
                               {},
                               "`nestor db " + v.path + " list` shows them first in each line"});
  const std::vector<Record> all = db.records();
  for (const Record& r : all)
    if (r.id == id) return r;
  throw UserError(Diagnostic{
      fmt::format("{} has no record {}", v.path, id),
      {},
      {},
      all.empty() ? "it has none at all"
                  : fmt::format("it has {} from {} to {}; `nestor db {} list` shows them",
                                counted(all.size(), "record"), all.front().id, all.back().id, v.path)});
}

// Those that the filters choose; says so where they choose none.
std::vector<Record> shown_records(const Database& db, const DbVerb& v) {
  std::vector<Record> out = chosen(db, v);
  if (out.empty() && !v.json) {
    const size_t all = db.records().size();
    fmt::print(stderr, "{} has {}\n", v.path,
               all == 0 ? "no records" : counted(all, "record") + ", none that match the filters");
  }
  return out;
}

void list(const Database& db, const DbVerb& v) {
  RecordTable table(v.json);
  for (const Record& r : shown_records(db, v)) table.add(r);
  table.print();
}

// As a compiler would take them.
void best(const Database& db, const DbVerb& v) {
  std::map<std::tuple<std::string, std::string, int>, bool> done;
  for (const Record& r : shown_records(db, v)) {
    if (r.outcome != Outcome::ok || !done.try_emplace({r.workload, r.target, r.threads}, true).second)
      continue;
    db.by_speed(r.workload, r.target, r.threads, [&](const Record& b) {
      if (!bad_figures(b).empty()) return false;
      print_record(b, v.json);
      if (!v.json) fmt::print("{}\n", shown(b.trace.empty() ? "the nest as it is\n" : b.trace));
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
    samples = fmt::format("{}, from {} to {}", sorted.size(), time_text(sorted.front() / 1e6),
                          time_text(sorted.back() / 1e6));
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
    throw UserError("db export would overwrite the database " + v.path + ": give FILE another name");
  std::string lines;
  size_t exported = 0;
  for (const Record& r : chosen(db, v)) {
    const std::string bad = bad_figures(r);
    if (!bad.empty()) {
      warn_of_record(fmt::format("record {} of {} is ignored: {}", r.id, v.path, bad));
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
  if (!v.stale && !v.failed) return tell(v, "removed", static_cast<size_t>(db.prune(v.keep.value_or(10))));
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

// Of what the filters choose, as a search would report it; how often a model calls a function isn't known
// here.
void report_on(const Database& db, const DbVerb& v) {
  require_ending("-o", v.output, {".html", ".htm"});
  if (v.output.empty()) throw UserError("db report needs -o FILE.html");
  report::TuningPage page;
  page.title = v.path;
  std::set<std::tuple<std::string, std::string, int>> done;
  std::map<int, report::Roofline> rooflines;  // by threads
  for (const Record& r : chosen(db, v)) {
    if (!done.emplace(r.workload, r.target, r.threads).second) continue;
    std::optional<PrimFunc> func;
    try {
      func = check_imported(r);
    } catch (const UserError& e) {
      warn_of_record(fmt::format("record {} of {} is ignored: {}", r.id, v.path, e.diagnostic().message));
      continue;
    }
    ReportedFunction f{*func, 1, host_target(), std::max(1, r.threads), r.target};
    f.target.cores = f.threads;
    const bool here = r.target == record_target(f.target);
    report::Roofline* roofline = nullptr;
    if (here) {
      roofline = &rooflines.try_emplace(f.threads, f.target, f.threads).first->second;
      if (page.facts.empty()) page.facts = machine_facts(f.target, f.threads, roofline);
    }
    page.functions.push_back(reported(db, f, roofline));
    page.functions.back().name +=
        fmt::format(" ({}, {})", counted(static_cast<size_t>(f.threads), "thread"), r.target);
  }
  if (page.functions.empty()) throw UserError(v.path + " has no records that match the filters");
  page.facts.emplace_back("command", command_line());
  write_text(v.output, report::tuning_page(page));
  if (v.json)
    fmt::print("{}\n", nlohmann::json{{"report", v.output}, {"functions", page.functions.size()}}.dump());
  else
    fmt::print("{}: the report of {}\n", v.output, counted(page.functions.size(), "function"));
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
  if (results.empty()) throw UserError("the worker didn't answer");
  Record again = results.front();
  again.workload = r.workload;
  again.target = r.target;
  again.plan = r.plan;
  again.id = db.insert(again);
  RecordTable table(v.json);
  table.add(r);
  table.add(again);
  table.print();
}

}  // namespace

namespace {

// What was asked for is done, or refused: nothing is left out of account.
void check_request(const DbVerb& v) {
  const std::map<std::string, std::string> needs = {{"show", "the number of a record"},
                                                    {"retry", "the number of a record"},
                                                    {"export", "a FILE of JSON lines"},
                                                    {"import", "a FILE of JSON lines"},
                                                    {"merge", "another database"}};
  const auto need = needs.find(v.action);
  if (need != needs.end() && v.what.empty()) throw UserError("db " + v.action + " needs " + need->second);
  const auto refuse = [&](bool given, const std::string& what, const std::string& hint) {
    if (given) throw UserError(Diagnostic{"db " + v.action + " takes no " + what, {}, {}, hint});
  };
  const bool prunes = v.action == "prune", some = prunes && (v.stale || v.failed);
  refuse(need == needs.end() && !v.what.empty(), "`" + v.what + "`",
         "--func, --target, --threads and --outcome choose records");
  refuse(!v.output.empty() && v.action != "report", "-o", "db DB report -o FILE.html");
  refuse(!prunes && (v.stale || v.failed || v.keep), "--stale, --failed or --keep", "they are of prune");
  refuse(some && v.keep, "--keep beside --stale or --failed", "prune twice");
  const bool filters = v.func != "*" || v.target != "*" || v.threads || !v.outcome.empty();
  const bool chooses =
      some || v.action == "list" || v.action == "best" || v.action == "report" || v.action == "export";
  refuse(
      filters && !chooses, "--func, --target, --threads or --outcome",
      prunes ? "with --stale or --failed they choose what is looked at" : "list, best, report and export do");
}

}  // namespace

int run(const DbVerb& v) {
  check_request(v);
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
  if (v.action == "report") report_on(db, v);
  if (v.action == "export") export_to(db, v);
  if (v.action == "prune") prune(db, v);
  if (v.action == "retry") retry(db, v);
  return 0;
}

}  // namespace nestor::cli
