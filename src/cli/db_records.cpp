#include "src/cli/db_records.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

#include "nestor/error.h"
#include "nestor/read_text.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

constexpr size_t kMostRecords = size_t{1} << 30;  // bytes of a file to import

// Whether the record can be taken; if it is a right one that can't be used here, `place` is told why not.
bool is_taken(const Record& r, const std::string& place) {
  const PrimFunc func = check_imported(r);
  const std::string why = r.outcome == Outcome::ok ? why_unusable(r, func, nullptr) : "";
  if (!why.empty())
    warn_of_record(fmt::format("{}: the record of {} is left out: {}", place, func.name, why));
  return why.empty();
}

auto identity_of_record(const Record& r) {
  return std::make_tuple(r.workload, r.target, r.threads, r.trace, r.outcome, r.median_ns, r.host);
}

}  // namespace

std::string shown(std::string text) {
  for (char& c : text)
    if (c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) c = ' ';
  return text;
}

std::string func_name(const Record& r) {
  const size_t start = r.func.find("func ");
  const size_t end = r.func.find_first_of("([", start == std::string::npos ? 0 : start);
  if (start == std::string::npos || end == std::string::npos) return "?";
  return r.func.substr(start + 5, end - start - 5);
}

std::vector<Record> chosen(const Database& db, const DbVerb& v) {
  const bool failed = v.outcome == "failed";  // whatever the cause
  if (!v.outcome.empty() && !failed && !parse_outcome(v.outcome)) {
    std::string names = "failed";
    for (size_t i = 0; i < kOutcomes; ++i) names += ", " + std::string(name_of(static_cast<Outcome>(i)));
    throw UserError(Diagnostic{"--outcome " + v.outcome + " is no outcome", {}, {}, names});
  }
  std::vector<Record> out;
  for (Record& r : db.records("", "", v.threads)) {
    if (!matches(v.func, func_name(r)) || !matches(v.target, r.target)) continue;
    if (failed ? r.outcome == Outcome::ok : !v.outcome.empty() && v.outcome != name_of(r.outcome)) continue;
    out.push_back(std::move(r));
  }
  return out;
}

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
      if (is_taken(r, fmt::format("{}:{}", file, here.line))) records.push_back(r);
    } catch (const UserError& e) {
      Diagnostic d = e.diagnostic();
      if (d.loc.line > 0) d.message = fmt::format("{}:{}: {}", d.loc.file, d.loc.line, d.message);
      d.loc = here;
      throw UserError(d);
    }
  }
  return records;
}

std::vector<Record> records_to_merge(const Database& db, const Database& other) {
  std::set<decltype(identity_of_record(Record()))> there;
  for (const Record& r : db.records()) there.insert(identity_of_record(r));
  std::vector<Record> out;
  for (const Record& r : other.records()) {
    const std::string place = fmt::format("record {} of {}", r.id, other.path());
    if (const std::string bad = bad_figures(r); !bad.empty()) {
      warn_of_record(place + " is left out: " + bad);
      continue;
    }
    if (!there.insert(identity_of_record(r)).second) continue;
    try {
      if (is_taken(r, place)) out.push_back(r);
    } catch (const UserError& e) {
      warn_of_record(place + " is left out: " + e.diagnostic().message);
    }
  }
  return out;
}

}  // namespace nestor::cli
