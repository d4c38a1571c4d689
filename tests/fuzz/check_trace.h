// The checks of one random schedule: it is well formed, its text replays to it, and it keeps the
// interpreter's result. A Road is a further check of some of them (machine code, CUDA).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nestor/schedule.h"

namespace nestor {

struct Finding {
  std::string kind;  // "result", "step", "lowering", ...; empty: nothing is wrong
  std::string what;  // for the reader
  bool failed() const { return !kind.empty(); }
};

struct Subject {
  PrimFunc func;  // unscheduled
  double tolerance = 0;
  uint64_t seed = 1;                               // of the inputs
  std::vector<std::vector<int64_t>> sizes = {{}};  // of its symbolic dimensions, each to be tried

  // Every symbolic dimension given.
  Subject at(const std::vector<int64_t>& dims) const;
};

// Every second time sums start before their loops, so that sizes may be 0 (nestor/start_before_loops.h); else
// without such sizes.
Subject start_sums(const Subject& subject, PrimFunc& scheduled);

std::string print_sizes(const PrimFunc& f, const std::vector<int64_t>& dims);  // " at sM=3, sN=1"; ""

Finding check_trace(const Subject& subject, const Schedule& s);

// Applies the steps that are legal and leaves out the others. Finding "step" where one throws what isn't a
// refusal.
Finding replay(const std::vector<std::string>& steps, Schedule& s);

// A way on from scheduled functions to something that runs. Many go together: compilers take longer to start
// than to compile one of them.
class Road {
 public:
  virtual ~Road() = default;
  struct Entry {
    bool taken = false;  // else the target can't express the schedule, with `why`
    std::string why;
    Finding verdict;  // lowering failed
  };
  virtual Entry add(const Subject& subject, const PrimFunc& scheduled, int64_t number) = 0;
  // Runs all that was taken since the last call: number and verdict of each.
  virtual std::vector<std::pair<int64_t, Finding>> run() = 0;
};
using Roads = std::map<std::string, std::function<std::unique_ptr<Road>()>>;  // by name

// check_trace, then the road where its name is known.
Finding check_all(const Subject& subject, const Schedule& s, const std::string& road, const Roads& roads);

}  // namespace nestor
