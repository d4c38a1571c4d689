// `nestor db`: what tuning found, as a table or as JSON lines.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/read_text.h"
#include "nestor/tune.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

constexpr size_t kMostRecords = size_t{1} << 30;  // bytes of a file to import
// Records may be somebody else's: they must not move the terminal's cursor.
std::string shown(std::string text) {
  for (char& c : text)
    if (c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) c = ' ';
  return text;
}

// "func conv2d_relu(...)" gives conv2d_relu.
std::string func_name(const Record& r) {
  const size_t start = r.func.find("func ");
  const size_t end = r.func.find_first_of("([", start == std::string::npos ? 0 : start);
  if (start == std::string::npos || end == std::string::npos) return "?";
  return r.func.substr(start + 5, end - start - 5);
}

void print_record(const Record& r, bool json) {
  const std::string bad = bad_figures(r);
  if (json)
    fmt::print("{}\n", to_json_line(r));
  else
    fmt::print("{:6}  {:<28} {:<24} {:2} thr  {:<13} {:>12.3f} us  {}\n", r.id, shown(func_name(r)),
               shown(r.target), r.threads, name_of(r.outcome), r.median_ns / 1e3,
               bad.empty() ? r.detail : "not used: " + bad);
}

// All lines are read and checked before the first is stored: one that isn't a record refuses the file. A
// right record whose schedule can't be used here, perhaps another version's, is left out with a line.
std::vector<Record> read_records(const std::string& file) {
  const std::string text = read_text(file, kMostRecords);
  std::vector<Record> records;
  size_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const SourceLoc here{file, static_cast<int>(++line_number), 1, 1, ""};
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    try {
      const Record r = record_from_json(line);
      const PrimFunc func = check_imported(r);
      const std::string why = r.outcome == Outcome::ok ? why_unusable(r, func, nullptr) : "";
      if (why.empty())
        records.push_back(r);
      else
        warn_of_record(
            fmt::format("{}:{}: the record of {} is left out: {}", file, here.line, func.name, why));
    } catch (const UserError& e) {
      Diagnostic d = e.diagnostic();
      if (d.loc.line > 0) d.message = fmt::format("{}:{}: {}", d.loc.file, d.loc.line, d.message);
      d.loc = here;
      throw UserError(d);
    }
  }
  return records;
}

void tell(const DbVerb& v, const std::string& done, size_t count, const std::string& where) {
  if (v.json)
    fmt::print("{}\n", nlohmann::json{{done, count}}.dump());
  else
    fmt::print("{} {} record{}{}\n", done, count, count == 1 ? "" : "s", where);
}

}  // namespace

int run(const DbVerb& v) {
  if ((v.action == "export" || v.action == "import") && v.file.empty())
    throw UserError("db " + v.action + " needs a FILE of JSON lines");
  if (v.action == "import") {
    const std::vector<Record> records = read_records(v.file);
    Database(v.path, Database::Mode::create).insert_all(records);
    tell(v, "imported", records.size(), " into " + v.path);
    return 0;
  }
  std::error_code none;
  if (v.action == "export" && std::filesystem::equivalent(v.path, v.file, none))
    throw UserError("db export would write over the database " + v.path + ": give FILE another name");
  Database db(v.path, Database::Mode::read);
  if (v.action == "prune") {
    tell(v, "removed", static_cast<size_t>(db.prune(10)), "");
    return 0;
  }
  std::vector<Record> records;
  for (const Record& r : db.records())
    if (matches(v.func, func_name(r))) records.push_back(r);
  if (v.action == "export") {
    std::string lines;
    size_t exported = 0;
    for (const Record& r : records) {
      const std::string bad = bad_figures(r);
      if (!bad.empty()) {
        warn_of_record(fmt::format("record {} of {} is left out: {}", r.id, v.path, bad));
        continue;
      }
      lines += to_json_line(r) + "\n";
      ++exported;
    }
    write_text(v.file, lines);
    tell(v, "exported", exported, " to " + v.file);
    return 0;
  }
  if (v.action == "best") {
    std::map<std::tuple<std::string, std::string, int>, Record> best;
    for (const Record& r : records) {
      if (r.outcome != Outcome::ok || !bad_figures(r).empty()) continue;
      const auto [it, inserted] = best.try_emplace({r.workload, r.target, r.threads}, r);
      if (!inserted && r.median_ns < it->second.median_ns) it->second = r;
    }
    for (const auto& [key, r] : best) {
      print_record(r, v.json);
      if (!v.json) fmt::print("{}\n", shown(r.trace));
    }
    return 0;
  }
  for (const Record& r : records) print_record(r, v.json);
  return 0;
}

}  // namespace nestor::cli
