// The report of a tuning as one HTML file: gains, the progress of the search, how the best schedule differs
// from the default, failures. It needs no script and loads nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/report/differences.h"
#include "src/report/roofline.h"

namespace nestor::report {

struct TuningPage {
  struct Failure {
    std::string cause;
    int64_t count = 0;
    std::string example;
  };
  struct Function {
    std::string name;
    int calls = 1;
    double default_ns = 0, best_ns = 0;  // 0: isn't known
    bool compared = false;               // both measured in turn at the end, not once each
    std::string verdict;                 // "3.27x", "no gain beyond noise"
    Bound bound;
    std::vector<double> trials_ns;  // in the order in which they were measured; 0: failed
    std::vector<Failure> failures;
    std::string end;   // why the search ended; empty: isn't known
    std::string plan;  // of the best
    // Steps, and the nests that they make; empty where there is none.
    std::string default_steps, best_steps, default_nest, best_nest;
    std::vector<Difference> differences;
  };
  std::string title;                                       // the model, or the database
  std::vector<std::pair<std::string, std::string>> facts;  // "machine", "command" ...
  std::vector<Function> functions;
};
std::string tuning_page(const TuningPage& page);

}  // namespace nestor::report
