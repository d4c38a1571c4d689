// Random legal traces: primitives with random arguments, of which the accepted ones are kept.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>

#include "nestor/schedule.h"

namespace nestor {

struct TraceCounts {
  struct Row {
    int64_t accepted = 0;
    std::map<std::string, int64_t> refused;  // by requirement: "1", "2", ..., or "A" to "D"
  };
  std::map<std::string, Row> rows;  // by primitive
  void add(const TraceCounts& other);
};
std::string print(const TraceCounts& counts);  // a table

// The requirement that a refused step breaks, as the message gives it: {"split", "3"}, or {"", "D"} for every
// step's.
std::pair<std::string, std::string> broken_requirement(const ScheduleError& e);

struct TraceOptions {
  int wanted = 8;  // accepted steps
  bool cpu = true,
       gpu = true;  // what both can express, or one; gpu alone: loops end up bound to blocks and threads
  std::vector<std::string> prefer = {};  // every other proposal is of one of these primitives
  std::function<void(const std::string&)> on_try =
      {};  // sees each line before it is tried, for who survives a crash
};
// Depends on nothing but the function, the options and the generator's state. A few primitives, drawn for
// each trace, are proposed more often than the others, so that traces differ in kind. What a step throws
// other than ScheduleError goes through.
Schedule random_schedule(const PrimFunc& f, std::mt19937_64& rng, TraceCounts& counts,
                         const TraceOptions& options = {});
// The primitives that single steps are proposed of; tensorize comes with the steps that lead to it.
const std::vector<std::string>& proposed_primitives();

}  // namespace nestor
