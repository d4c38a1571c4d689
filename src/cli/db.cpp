// `nestor db`: what tuning found, as a table or as JSON lines.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/tune.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

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

}  // namespace

int run(const DbVerb& v) {
  if ((v.action == "export" || v.action == "import") && v.file.empty())
    throw UserError("db " + v.action + " needs a FILE of JSON lines");
  if (v.action == "import") {
    const std::string text = read_text(v.file);
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
    fmt::print("imported {} records into {}\n", records.size(), v.path);
    return 0;
  }
  std::error_code none;
  if (v.action == "export" && std::filesystem::equivalent(v.path, v.file, none))
    throw UserError("db export would write over the database " + v.path + ": give FILE another name");
  Database db(v.path, Database::Mode::read);
  if (v.action == "prune") {
    fmt::print("removed {} records\n", db.prune(10));
    return 0;
  }
  std::vector<Record> records;
  for (const Record& r : db.records())
    if (matches(v.func, func_name(r))) records.push_back(r);
  if (v.action == "export") {
    std::string lines;
    for (const Record& r : records) lines += to_json_line(r) + "\n";
    write_text(v.file, lines);
    fmt::print("exported {} records to {}\n", records.size(), v.file);
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
