// Records as JSON lines: the export format, and what workers report.
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/tune.h"

namespace nestor {

namespace {

constexpr const char* kOutcomes[] = {"ok", "illegal", "compile_error", "wrong_result", "crash", "timeout"};

}  // namespace

const char* name_of(Outcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}

std::optional<Outcome> parse_outcome(std::string_view name) {
  for (size_t i = 0; i < std::size(kOutcomes); ++i)
    if (name == kOutcomes[i]) return static_cast<Outcome>(i);
  return std::nullopt;
}

std::string to_json_line(const Record& r) {
  return nlohmann::json{{"id", r.id},
                        {"workload", r.workload},
                        {"func", r.func},
                        {"target", r.target},
                        {"threads", r.threads},
                        {"trace", r.trace},
                        {"outcome", name_of(r.outcome)},
                        {"detail", r.detail},
                        {"samples_ns", r.samples_ns},
                        {"median_ns", r.median_ns},
                        {"compile_ms", r.compile_ms},
                        {"error", r.error},
                        {"seed", r.seed},
                        {"version", r.version},
                        {"host", r.host},
                        {"stored", r.stored}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Record record_from_json(const std::string& line) {
  Record r;
  try {
    const nlohmann::json j = nlohmann::json::parse(line);
    r.id = j.value("id", int64_t{0});
    j.at("workload").get_to(r.workload);
    j.at("func").get_to(r.func);
    j.at("target").get_to(r.target);
    j.at("threads").get_to(r.threads);
    j.at("trace").get_to(r.trace);
    const std::string outcome = j.at("outcome");
    if (const auto parsed = parse_outcome(outcome))
      r.outcome = *parsed;
    else
      throw UserError("a tuning record has the unknown outcome \"" + outcome + "\"");
    r.detail = j.value("detail", "");
    j.at("samples_ns").get_to(r.samples_ns);
    j.at("median_ns").get_to(r.median_ns);
    r.compile_ms = j.value("compile_ms", 0.0);
    r.error = j.value("error", 0.0);
    r.seed = j.value("seed", uint64_t{0});
    r.version = j.value("version", "");
    r.host = j.value("host", "");
    r.stored = j.value("stored", false);
  } catch (const nlohmann::json::exception& e) {
    throw UserError(Diagnostic{"a tuning record can't be read",
                               {},
                               {e.what()},
                               "one JSON object a line, as `nestor db t.db export` writes them"});
  }
  return r;
}

}  // namespace nestor
