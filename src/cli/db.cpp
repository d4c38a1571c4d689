// `nestor db`: what tuning found, as a table or as JSON lines.
#include <fmt/format.h>

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

// "func conv2d_relu(...)" gives conv2d_relu.
std::string func_name(const Record& r) {
  const size_t start = r.func.find("func ");
  const size_t end = r.func.find_first_of("([", start == std::string::npos ? 0 : start);
  if (start == std::string::npos || end == std::string::npos) return "?";
  return r.func.substr(start + 5, end - start - 5);
}

void print_record(const Record& r, bool json) {
  if (json)
    fmt::print("{}\n", to_json_line(r));
  else
    fmt::print("{:6}  {:<28} {:<24} {:2} thr  {:<13} {:>12.3f} us  {}\n", r.id, func_name(r), r.target,
               r.threads, name_of(r.outcome), r.median_ns / 1e3, r.detail);
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
    const std::string text = read_text(v.file, kMostRecords);
    std::vector<Record> records;  // all lines are read before the first is stored
    size_t line_number = 0;
    for (size_t at = 0; at < text.size(); ++line_number) {
      const size_t end = std::min(text.find('\n', at), text.size());
      try {
        if (end > at) records.push_back(record_from_json(text.substr(at, end - at)));
      } catch (const UserError& e) {
        Diagnostic d = e.diagnostic();
        d.loc = {v.file, static_cast<int>(line_number) + 1, 1, 1, ""};
        throw UserError(d);
      }
      at = end + 1;
    }
    Database db(v.path, Database::Mode::create);
    for (const Record& r : records) db.insert(r);
    tell(v, "imported", records.size(), " into " + v.path);
    return 0;
  }
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
    for (const Record& r : records) lines += to_json_line(r) + "\n";
    write_text(v.file, lines);
    tell(v, "exported", records.size(), " to " + v.file);
    return 0;
  }
  if (v.action == "best") {
    std::map<std::tuple<std::string, std::string, int>, Record> best;
    for (const Record& r : records) {
      if (r.outcome != Outcome::ok) continue;
      const auto [it, inserted] = best.try_emplace({r.workload, r.target, r.threads}, r);
      if (!inserted && r.median_ns < it->second.median_ns) it->second = r;
    }
    for (const auto& [key, r] : best) {
      print_record(r, v.json);
      if (!v.json) fmt::print("{}\n", r.trace);
    }
    return 0;
  }
  for (const Record& r : records) print_record(r, v.json);
  return 0;
}

}  // namespace nestor::cli
