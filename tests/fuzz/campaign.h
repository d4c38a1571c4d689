// Runs many random schedules in several processes. Case i of a seed is always the same, in whatever process
// and order it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/check_trace.h"
#include "tests/fuzz/functions.h"
#include "tests/fuzz/random_trace.h"

namespace nestor {

// One case before its trace is drawn.
struct Draft {
  FuzzFunction function;
  std::string road;  // "cpu", "cuda", "proof", or empty: the interpreter alone
  bool ragged = false;
  OpenSizes sizes = {{}};  // of its symbolic dimensions
  std::mt19937_64 rng;
  TraceOptions options;
};
struct Failure {
  int64_t number = 0;
  std::string road, kind, what;
  std::vector<std::string> steps;
};

struct CampaignOptions {
  uint64_t seed = 20261120;
  int64_t traces = 20000;
  double minutes = 15;
  int processes = 2;
  int64_t most_failures = 5;        // stops there
  std::vector<std::string> prefer;  // as of TraceOptions
  bool open = false;                // sizes stay open: symbolic dimensions, run at five sizes each
  bool progress = false;            // a line now and then on stderr
};
Draft draft_case(const CampaignOptions& options, int64_t number);

struct CampaignResult {
  int64_t traces = 0, ragged = 0;
  std::vector<int64_t> lengths;  // accepted steps, sorted
  TraceCounts counts;
  struct RoadCount {
    int64_t ran = 0, refused = 0;
    std::map<std::string, int64_t> instructions;  // in those that ran
    std::map<std::string, int64_t> reasons;       // of refusals
  };
  std::map<std::string, RoadCount> roads;
  std::map<std::string, int64_t> functions;  // traces of each
  std::vector<Failure> failures;             // by number
  double seconds = 0;
};
CampaignResult run_campaign(const CampaignOptions& options, const Roads& roads);
std::string print(const CampaignResult& result);

}  // namespace nestor
