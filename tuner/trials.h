// Measures candidates of functions and decides which measurements are trusted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nestor/tune.h"
#include "tuner/budget.h"
#include "tuner/claims.h"
#include "tuner/task.h"

namespace nestor {

class Trials {
 public:
  Trials(Database& db, const TuneOptions& options, Budget& budget)
      : db_(db), options_(options), budget_(budget), pool_(options.workers), claims_(db.path()) {}

  void watch(Task& t) { tasks_.push_back(&t); }
  // Measures the candidates, those apart that another tuner has measured; each result is stored before
  // anything is said of it. No job is begun after `until` seconds of the search.
  void measure(Task& t, const std::vector<std::string>& traces, double until);
  // The default, which may take longer than a candidate.
  void measure_default(Task& t, double until);
  Job job_of(const Task& t, const std::string& trace);

  WorkerPool& pool() { return pool_; }
  const WorkerPool& pool() const { return pool_; }
  double seconds_a_job() const { return jobs_ > 0 ? worked_s_ / static_cast<double>(jobs_) : 0; }

 private:
  struct Second {
    Record record;
    int worker = kNobody;
  };
  void store(Task& t, Record& r);
  void confirm_best(Task& t, const RunControl& control);
  std::optional<Second> measure_again(Task& t, const std::string& trace, int not_on,
                                      const RunControl& control);
  void believe(Task& t, Record first, const Record& second, const std::vector<int>& workers);
  void disbelieve(Task& t, Record r, int claimant, const std::string& why);
  void suspect(int worker, const Record& truth, const Record& said, const std::string& what);

  Database& db_;
  const TuneOptions& options_;
  Budget& budget_;
  WorkerPool pool_;
  Claims claims_;
  std::vector<Task*> tasks_;
  int64_t ids_ = 0, jobs_ = 0;
  double worked_s_ = 0;  // that right ones of jobs_ took
};

}  // namespace nestor
