#include "src/cli/db_records.h"

#include <fmt/format.h>

#include <filesystem>

#include "nestor/error.h"
#include "nestor/read_text.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

constexpr size_t kMostRecords = size_t{1} << 30;  // bytes of a file to import

// Whether the record is new and can be taken; if it is a right one that can't be used here, `place` is told
// why not.
bool is_taken(const Record& r, const std::string& place, KnownRecords& known) {
  const PrimFunc func = check_imported(r);
  if (!known.is_new(r)) return false;
  const std::string why = r.outcome == Outcome::ok ? why_unusable(r, func, nullptr) : "";
  if (!why.empty()) warn_of_record(fmt::format("{}: the record of {} is ignored: {}", place, func.name, why));
  return why.empty();
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
    throw UserError(Diagnostic{"--outcome " + v.outcome + " isn't an outcome", {}, {}, names});
  }
  std::vector<Record> out;
  for (Record& r : db.records("", "", v.threads)) {
    if (!matches(v.func, func_name(r)) || !matches(v.target, r.target)) continue;
    if (failed ? r.outcome == Outcome::ok : !v.outcome.empty() && v.outcome != name_of(r.outcome)) continue;
    out.push_back(std::move(r));
  }
  return out;
}

KnownRecords::KnownRecords(const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  for (const Record& r : Database(path, Database::Mode::read).records()) is_new(r);
  met_ = 0;
}

bool KnownRecords::is_new(const Record& r) {
  const bool added =
      known_.insert({r.workload, r.target, r.threads, r.trace, r.outcome, r.median_ns, r.host}).second;
  met_ += !added;
  return added;
}

std::vector<Record> read_records(const std::string& file, KnownRecords& known) {
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
      if (is_taken(r, fmt::format("{}:{}", file, here.line), known)) records.push_back(r);
    } catch (const UserError& e) {
      Diagnostic d = e.diagnostic();
      if (d.loc.line > 0) d.message = fmt::format("{}:{}: {}", d.loc.file, d.loc.line, d.message);
      d.loc = here;
      throw UserError(d);
    }
  }
  return records;
}

std::vector<Record> read_records(const Database& other, KnownRecords& known) {
  std::vector<Record> out;
  for (const Record& r : other.records()) {
    const std::string place = fmt::format("record {} of {}", r.id, other.path());
    if (const std::string bad = bad_figures(r); !bad.empty()) {
      warn_of_record(place + " is ignored: " + bad);
      continue;
    }
    try {
      if (is_taken(r, place, known)) out.push_back(r);
    } catch (const UserError& e) {
      warn_of_record(place + " is ignored: " + e.diagnostic().message);
    }
  }
  return out;
}

}  // namespace nestor::cli
