// A function that is being tuned: its search spaces, its measurements, and what to measure again.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nestor/tune.h"
#include "tuner/budget.h"
#include "tuner/proposals.h"

namespace nestor {

inline constexpr size_t kParents = 6;
inline constexpr size_t kMostUnusable = 8;  // records that are looked at: a database may be full of them
inline constexpr int kNobody = -1;          // of this run's workers: it was found in the database

// A candidate that failed, perhaps for its worker's sake.
struct Failed {
  std::string trace;
  Outcome outcome = Outcome::crash;
  int times = 1;
  int worker = -1;
};

class Task {
 public:
  // Goes on from what earlier runs measured.
  Task(const TuneTask& wanted, const Database& db, const TuneOptions& options, const Budget& budget);

  // What there may be to win: its share of the model's time, less with every batch spent; negative where
  // nothing is left to try.
  double weight() const;
  void learn(const Record& r, int worker);  // the result of a candidate
  void put(const Record& r, int worker);    // a right one into the population
  // Forgets a right result that turned out to be none.
  void forget(const Record& r);
  const Record* find(const std::string& trace) const;  // among the right ones
  // The next so many: those that failed and may do better, then new ones.
  std::vector<std::string> next_batch(size_t count, uint64_t seed);
  // The default and the fastest of the others: those that one measurement doesn't tell apart.
  std::vector<std::string> contestants() const;
  void note_best(double elapsed_s);  // after each change of the population
  double best_ns() const { return population.empty() ? 0 : population.front().median_ns; }

  PrimFunc func;
  int calls = 1;
  std::string text, key, start_text, name;  // `name`: of it among claims
  Trace start;
  double least_ns = 0;     // below which no time is one
  std::vector<Trace> own;  // the user's, and those of like functions: measured first
  std::unique_ptr<Proposals> proposals;
  std::vector<Record> population;  // right ones, fastest first; of earlier runs' the best that are usable
  std::map<std::string, int> measured_by;    // by trace, of those of this run
  std::set<std::string> confirmed;           // traces of which a second measurement said the same
  std::set<std::string> seen;                // traces ever proposed
  std::map<std::string, std::string> plans;  // by trace
  std::map<std::string, Failed> failed;      // by trace, all of this run
  std::vector<std::string> again;            // of these, what is tried again
  int batches = 0;
  double timeout_s = 0;  // of a candidate
  double slowest_s = 0;  // that a right one took, with all
  bool exhausted = false;
  TuneResult result;

 private:
  void resume(const Database& db, const TuneOptions& options, const Budget& budget);
};

}  // namespace nestor
