// What the report of a tuning shows, from the records of a database.
#pragma once

#include "nestor/tune.h"
#include "src/report/tuning_page.h"

namespace nestor::cli {

// A function of the report: its records are those of the target and the number of threads.
struct ReportedFunction {
  PrimFunc func;
  int calls = 1;
  Target target;  // with as many cores as threads
  int threads = 1;
  std::string record_target;  // of the records; another than the target's: its default isn't known here
};

report::TuningPage::Function reported(const Database& db, const ReportedFunction& f,
                                      report::Roofline* roofline);
// What a search that has just ended says more exactly.
void add_result(const TuneResult& result, report::TuningPage::Function& to);

// The command that this process was started with, as a shell takes it.
std::string command_line();
// "native znver5, 512-bit vectors ...", the yardsticks of the bounds.
std::vector<std::pair<std::string, std::string>> machine_facts(const Target& target, int threads,
                                                               report::Roofline* roofline);

}  // namespace nestor::cli
