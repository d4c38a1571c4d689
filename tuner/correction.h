// What measurements say of the price: gradient-boosted trees (XGBoost) over the terms of the price, fitted to
// how far it was off. Of one function on one machine; what was measured is the whole state, so a database is
// its memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nestor/cost.h"

namespace nestor {

class Correction {
 public:
  void learn(const std::string& trace, const Cost& cost, double ns);
  void forget(const std::string& trace) { measured_.erase(trace); }
  // What to order schedules by, the best first when ascending: the logarithm of the price, corrected once
  // enough is measured. The same for the same measurements in any order.
  std::vector<double> order(const std::vector<Cost>& costs) const;

 private:
  struct Measured {
    Cost cost;
    double ns = 0;
  };
  std::map<std::string, Measured> measured_;  // by trace
};

}  // namespace nestor
