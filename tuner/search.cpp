// Evolution over plans and decisions, started from the analytic default, so that no trial is needed to be
// good.
//
// The stream of candidates is a function of the seed and of the results so far in candidate order: batch by
// batch, each batch's generator is seeded by (seed, function, index of the batch), whoever measures and
// however many do. Timings of a resumed run come from the database, so a kill costs nothing but what was
// under way.
//
// The time is for all of it: a third at most is kept for the comparison at the end, which takes the functions
// first where there is most to win, and jobs under way are given up when it is over.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/sched_file.h"
#include "tuner/budget.h"
#include "tuner/final.h"
#include "tuner/task.h"
#include "tuner/trials.h"

namespace nestor {

namespace {

class Search {
 public:
  Search(Database& db, const TuneOptions& options)
      : db_(db), options_(options), budget_(options), trials_(db, options, budget_) {}

  std::vector<TuneResult> run(const std::vector<TuneTask>& wanted) {
    for (const TuneTask& w : wanted) {
      tasks_.push_back(std::make_unique<Task>(w, db_, options_, budget_));
      trials_.watch(*tasks_.back());
    }
    try {
      search();
      for (const auto& t : tasks_) say_end(*t);
      compare_all();
    } catch (const UserError& e) {  // of the database; what was stored is there
      if (options_.warn) options_.warn(e.diagnostic().message);
      for (const auto& t : tasks_) {
        t->result.end = TuneEnd::not_stored;
        take_best(*t);
      }
    }
    std::vector<TuneResult> results;
    for (const auto& t : tasks_) results.push_back(t->result);
    return results;
  }

 private:
  void search() {
    for (const auto& t : tasks_) {
      if (is_over(0)) break;
      start(*t);
    }
    while (!is_over(reserve() + longest_proposal_s_)) {
      const auto next = std::max_element(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
        return a->weight() < b->weight();
      });
      if (next == tasks_.end() || (*next)->weight() < 0) break;
      run_batch(**next);
    }
  }

  // What ends the search of all functions now.
  std::optional<TuneEnd> end_of_all(double reserve) const {
    if (budget_.is_stopped()) return TuneEnd::stopped;
    if (trials_.pool().all_out()) return TuneEnd::no_workers;
    if (budget_.trials_over()) return TuneEnd::trials_over;
    if (budget_.left() <= reserve) return TuneEnd::time_over;
    return std::nullopt;
  }
  bool is_over(double reserve) const { return end_of_all(reserve).has_value(); }
  void say_end(Task& t) {
    if (t.proposals->empty())
      t.result.end = TuneEnd::nothing_to_search;
    else if (t.weight() < 0)
      t.result.end = TuneEnd::all_tried;
    else
      t.result.end = end_of_all(reserve()).value_or(TuneEnd::time_over);
  }

  void start(Task& t) {
    trials_.measure_default(t, options_.seconds);
    t.seen.insert(t.start_text);
    std::vector<std::string> own;
    for (const Trace& trace : t.own)
      if (std::string text = print(trace); t.seen.insert(text).second) own.push_back(std::move(text));
    if (!own.empty()) trials_.measure(t, own, options_.seconds);
    if (t.proposals->empty()) t.exhausted = true;
    report(t);
  }

  void run_batch(Task& t) {
    const double begin = budget_.elapsed();
    const std::vector<std::string> batch = t.next_batch(
        static_cast<size_t>(std::min<int64_t>(options_.batch, budget_.trials_left())), options_.seed);
    longest_proposal_s_ = std::max(longest_proposal_s_, budget_.elapsed() - begin);
    if (batch.empty()) return;
    trials_.measure(t, batch, options_.seconds - reserve());
    report(t);
  }

  // Seconds that the comparisons at the end will take, at most a third of all.
  double reserve() const {
    size_t jobs = 0;
    for (const auto& t : tasks_) jobs += jobs_of_final(t->contestants().size());
    return std::min(static_cast<double>(jobs) * trials_.seconds_a_job(), options_.seconds / 3);
  }

  // By the single measurements.
  static void take_best(Task& t) {
    t.result.best = t.start;
    t.result.best_ns = t.result.default_ns;
    if (t.population.empty()) return;
    const std::vector<std::string> contestants = t.contestants();
    if (contestants.size() > 1) take(t, contestants[1], t.best_ns());
  }
  static void take(Task& t, const std::string& trace, double ns) {
    t.result.best = schedules::parse_primitives(trace, "record");
    t.result.best_ns = ns;
    const Record* r = t.find(trace);
    t.result.plan = r ? r->plan : "";
  }
  static double gain(const Task& t) { return t.calls * (t.result.default_ns - t.best_ns()); }

  void compare_all() {
    std::vector<Task*> open;
    for (const auto& t : tasks_) {
      take_best(*t);
      if (t->population.empty()) continue;
      if (t->contestants().size() == 1)
        declare(*t);
      else if (t->result.default_ns > 0)  // else the default failed: there is nothing to compare with
        open.push_back(t.get());
    }
    std::stable_sort(open.begin(), open.end(),
                     [](const Task* a, const Task* b) { return gain(*a) > gain(*b); });
    for (Task* t : open) {
      if (budget_.is_cut() || trials_.pool().all_out()) return;
      compare(*t);
    }
  }
  void compare(Task& t) {
    report(t, true);
    std::vector<Job> jobs;
    for (const std::string& trace : t.contestants()) jobs.push_back(trials_.job_of(t, trace));
    WorkerPool& pool = trials_.pool();
    const Final end = decide(jobs, pool, pool.most_trusted(), [&] { return budget_.is_cut(); });
    if (!end.compared) return;
    t.result.compared = true;
    t.result.default_ns = end.default_ns;
    t.result.gain_beyond_noise = end.winner > 0;
    t.result.noise = end.noise;
    take(t, jobs[end.winner].trace, end.winner_ns);
    declare(t);
  }
  void declare(const Task& t) {
    db_.declare_best(t.key, record_target(options_.target), options_.threads, print(t.result.best));
  }

  void report(const Task& t, bool comparing = false) const {
    if (!options_.on_progress) return;
    TuneProgress p;
    p.func = t.func.name;
    p.measured = t.result.measured;
    p.default_ns = t.result.default_ns;
    p.best_ns = t.best_ns();
    p.outcomes = t.result.outcomes;
    p.elapsed_s = budget_.elapsed();
    p.comparing = comparing;
    options_.on_progress(p);
  }

  Database& db_;
  const TuneOptions& options_;
  Budget budget_;
  Trials trials_;
  std::vector<std::unique_ptr<Task>> tasks_;
  double longest_proposal_s_ = 0;
};

}  // namespace

const char* describe(TuneEnd end) {
  switch (end) {
    case TuneEnd::nothing_to_search:
      return "there is nothing to search";
    case TuneEnd::all_tried:
      return "every candidate was tried";
    case TuneEnd::time_over:
      return "the time is over";
    case TuneEnd::trials_over:
      return "the trials are over";
    case TuneEnd::stopped:
      return "stopped";
    case TuneEnd::no_workers:
      return "no worker is left";
    case TuneEnd::not_stored:
      return "results can't be stored any more";
  }
  return "";
}

std::vector<TuneResult> tune(const std::vector<TuneTask>& tasks, Database& db, const TuneOptions& options) {
  return Search(db, options).run(tasks);
}

}  // namespace nestor
