// Evolution over the decisions of a trace, started from the analytic default, so that no trial is needed to
// be good.
//
// The stream of candidates is a function of the seed and of the results so far in candidate order: batch by
// batch, each batch's generator is seeded by (seed, function, index of the batch), and ties are broken by
// age. Timings of a resumed run come from the database, so a kill costs nothing but the batch that was under
// way.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "nestor/error.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/sched_file.h"
#include "tuner/final.h"
#include "tuner/proposals.h"
#include "tuner/space.h"

namespace nestor {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimingSeconds = 0.06;  // per candidate
constexpr size_t kParents = 6;
constexpr size_t kMostUnusable = 8;  // records of a function: somebody may have filled a database with them

// A function under search.
struct Task {
  explicit Task(PrimFunc f) : func(std::move(f)) {}
  PrimFunc func;
  int calls = 1;
  std::string text, key;
  Trace start;
  std::vector<Trace> own;  // the user's, measured first
  std::unique_ptr<Proposals> proposals;
  std::vector<Record>
      population;  // right ones, fastest first; of those of earlier runs, the best that are usable
  std::set<std::string> seen;                // traces ever proposed
  std::map<std::string, std::string> plans;  // by trace
  int batches = 0;
  bool exhausted = false;
  TuneResult result;

  double weight()
      const {  // what there may be to win: its share of the model's time, less with every batch spent
    const double best = population.empty() ? result.default_ns : population.front().median_ns;
    return exhausted ? -1 : calls * std::max(best, 1.0) / (1 + batches);
  }
};

std::string is_not_used(const Record& r, const std::string& db, const PrimFunc& f, const std::string& why) {
  return "record " + std::to_string(r.id) + " of " + db + " isn't used for " + f.name + ": " + why;
}

void learn(Task& t, const Record& r) {
  t.result.outcomes[static_cast<size_t>(r.outcome)]++;
  if (r.outcome != Outcome::ok) return;
  const auto place =
      std::upper_bound(t.population.begin(), t.population.end(), r,
                       [](const Record& a, const Record& b) { return a.median_ns < b.median_ns; });
  t.population.insert(place, r);
}

class Search {
 public:
  Search(Database& db, const TuneOptions& options)
      : db_(db), options_(options), pool_(options.workers), begin_(Clock::now()) {}

  std::vector<TuneResult> run(const std::vector<TuneTask>& wanted) {
    for (const TuneTask& w : wanted) tasks_.push_back(make_task(w));
    for (const auto& t : tasks_)
      if (!stopped(0)) measure_default(*t);
    while (!stopped(reserve())) {
      const auto next = std::max_element(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
        return a->weight() < b->weight();
      });
      if (next == tasks_.end() || (*next)->weight() < 0) break;
      run_batch(**next);
    }
    std::vector<TuneResult> results;
    for (const auto& t : tasks_) {
      if (t->proposals->empty())
        t->result.end = TuneEnd::nothing_to_search;
      else if (t->exhausted)
        t->result.end = TuneEnd::all_tried;
      else
        t->result.end = end_of_all(reserve()).value_or(TuneEnd::time_over);
      finish(*t);
      results.push_back(t->result);
    }
    return results;
  }

 private:
  // What ends the search of all functions now.
  std::optional<TuneEnd> end_of_all(double reserve) const {
    if (options_.stop && options_.stop()) return TuneEnd::stopped;
    if (pool_.all_out()) return TuneEnd::no_workers;
    if (options_.trials > 0 && measured_ >= options_.trials) return TuneEnd::trials_over;
    if (elapsed() >= options_.seconds - reserve) return TuneEnd::time_over;
    return std::nullopt;
  }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  bool stopped(double reserve) const { return end_of_all(reserve).has_value(); }

  std::unique_ptr<Task> make_task(const TuneTask& wanted) {
    auto task = std::make_unique<Task>(wanted.func);
    Task& t = *task;
    t.calls = wanted.calls;
    t.text = print(t.func);
    t.key = workload_key(t.func);
    t.start = default_schedule(t.func, options_.target);
    const auto is_wanted = [&](const char* family) {
      if (options_.families.empty()) return options_.own.empty();
      return std::count(options_.families.begin(), options_.families.end(), family) > 0;
    };
    std::seed_seq seeds{options_.seed};
    std::mt19937_64 rng(seeds);
    for (const ScheduleProvider& provider : options_.own)
      if (const auto choice = provider(t.func, options_.target))
        t.own.push_back(legal_decisions(t.func, choice->trace, rng));
    std::vector<Trace> traces = t.own;
    if (is_wanted("default")) traces.push_back(t.start);
    const bool every_family = options_.families.empty() && options_.own.empty();
    t.proposals = std::make_unique<Proposals>(t.func, std::move(traces), options_.target, options_.threads,
                                              every_family ? nullptr : &options_.families);
    t.result.func = t.func.name;
    t.result.outcomes.assign(kOutcomes, 0);
    resume(t);
    return task;
  }

  // Goes on from what earlier runs measured. Their records are input: the fastest must be usable, and what
  // says nothing of the schedule is measured again.
  void resume(Task& t) {
    const std::string start = print(t.start);
    int of_this_seed = 0;
    std::vector<Record> right;
    for (Record& r : db_.records(t.key, record_target(options_.target), options_.threads)) {
      const bool of_schedule = r.outcome < Outcome::crash;
      if (!of_schedule || !t.seen.insert(r.trace).second) continue;
      ++t.result.resumed;
      of_this_seed += r.seed == options_.seed;
      if (r.outcome == Outcome::ok) right.push_back(std::move(r));
    }
    t.batches = (of_this_seed + options_.batch - 1) / options_.batch;
    std::stable_sort(right.begin(), right.end(),
                     [](const Record& a, const Record& b) { return a.median_ns < b.median_ns; });
    size_t unusable = 0;
    for (Record& r : right) {
      const bool is_start = r.trace == start;
      if (!is_start && (t.population.size() >= kParents || unusable >= kMostUnusable)) continue;
      if (const std::string why = why_unusable(r, t.func, &options_.target); !why.empty()) {
        ++unusable;
        if (options_.warn) options_.warn(is_not_used(r, db_.path(), t.func, why));
        if (is_start) t.seen.erase(r.trace);
        continue;
      }
      if (is_start) t.result.default_ns = r.median_ns;
      t.population.push_back(std::move(r));
    }
  }

  Job job_of(const Task& t, const Trace& trace) { return job_of(t, print(trace)); }
  Job job_of(const Task& t, const std::string& trace) {
    Job j;
    j.id = ++ids_;
    j.func = t.text;
    j.trace = trace;
    j.target = options_.target.name;
    j.threads = options_.threads;
    j.seed = options_.seed;
    j.seconds = kTimingSeconds;
    j.cutoff_ns = t.population.empty() ? 0 : t.population.front().median_ns;
    return j;
  }

  // Measures, stores each as it comes, learns in candidate order.
  void measure_jobs(Task& t, const std::vector<Job>& jobs, double reserve) {
    const double begin = elapsed();
    const auto records = pool_.run(
        jobs,
        [&](Record& r) {
          r.workload = t.key;
          r.target = record_target(options_.target);
          if (const auto plan = t.plans.find(r.trace); plan != t.plans.end()) r.plan = plan->second;
          db_.insert(r);
          ++measured_;
          ++t.result.measured;
        },
        [&] { return stopped(reserve); });
    worked_s_ += (elapsed() - begin) * static_cast<double>(std::min(pool_.left(), jobs.size()));
    jobs_ += static_cast<int64_t>(records.size());
    for (const Record& r : records) learn(t, r);
    t.result.untried += static_cast<int64_t>(jobs.size() - records.size());
    auto& improvements = t.result.improvements;
    if (!t.population.empty() &&
        (improvements.empty() || t.population.front().median_ns < improvements.back().second))
      improvements.emplace_back(elapsed(), t.population.front().median_ns);
    report(t);
  }

  void measure_default(Task& t) {
    const std::string text = print(t.start);
    if (t.result.default_ns == 0 && t.seen.insert(text).second) measure_jobs(t, {job_of(t, t.start)}, 0);
    for (const Record& r : t.population)
      if (r.trace == text) t.result.default_ns = r.median_ns;
    std::vector<Job> own;
    for (const Trace& trace : t.own)
      if (t.seen.insert(print(trace)).second) own.push_back(job_of(t, trace));
    if (!own.empty()) measure_jobs(t, own, 0);
    if (t.proposals->empty()) t.exhausted = true;
  }

  void run_batch(Task& t) {
    std::seed_seq seeds{options_.seed, static_cast<uint64_t>(std::stoull(t.key.substr(0, 8), nullptr, 16)),
                        static_cast<uint64_t>(t.batches)};
    std::mt19937_64 rng(seeds);
    const int64_t batch =
        options_.trials > 0 ? std::min<int64_t>(options_.batch, options_.trials - measured_) : options_.batch;
    std::vector<Record> parents(
        t.population.begin(),
        t.population.begin() + static_cast<std::ptrdiff_t>(std::min(kParents, t.population.size())));
    const std::vector<Candidate> candidates =
        t.proposals->next(parents, t.seen, static_cast<size_t>(batch), rng);
    std::vector<Job> jobs;
    for (const Candidate& c : candidates) {
      jobs.push_back(job_of(t, c.text));
      t.plans[jobs.back().trace] = c.plan;
    }
    ++t.batches;
    if (jobs.empty())
      t.exhausted = true;
    else
      measure_jobs(t, jobs, reserve());
  }

  // The default, and the fastest of the others: those that one measurement doesn't tell apart.
  std::vector<Job> contestants(const Task& t) {
    constexpr double kAsFast = 1.05;
    constexpr size_t kMost = 4;
    std::vector<Job> out = {job_of(t, t.start)};
    for (const Record& r : t.population) {
      if (r.median_ns > kAsFast * t.population.front().median_ns || out.size() == kMost) break;
      if (r.trace == out.front().trace) {
        if (out.size() == 1) break;  // the default was the fastest
        continue;
      }
      out.push_back(job_of(t, r.trace));
    }
    return out;
  }
  // Seconds that the comparisons at the end will take, at most a third of all.
  double reserve() {
    size_t jobs = 0;
    for (const auto& t : tasks_) jobs += jobs_of_final(contestants(*t).size());
    const double one = jobs_ > 0 ? worked_s_ / static_cast<double>(jobs_) : 0;
    return std::min(static_cast<double>(jobs) * one, options_.seconds / 3);
  }

  void finish(Task& t) {
    t.result.best = t.start;
    t.result.best_ns = t.result.default_ns;
    if (t.population.empty()) return;
    const std::vector<Job> jobs = contestants(t);
    if (jobs.size() == 1) return declare(t);
    const auto take = [&](const Job& j, double ns) {
      t.result.best = schedules::parse_primitives(j.trace, "record");
      t.result.best_ns = ns;
      for (const Record& r : t.population)
        if (r.trace == j.trace) t.result.plan = r.plan;
    };
    take(jobs[1], t.population.front().median_ns);
    // The default failed or was never reached, or the user waits for an end: the single measurements have to
    // do.
    if (t.result.default_ns == 0 || (options_.stop && options_.stop()) || pool_.all_out()) return;
    if (!one_worker_) one_worker_ = std::make_unique<WorkerPool>(pool_.options_for_one());
    report(t, true);
    const Final end = decide(
        jobs, *one_worker_, options_.stop ? options_.stop : [] { return false; });
    if (!end.compared) return;
    t.result.compared = true;
    t.result.default_ns = end.default_ns;
    t.result.gain_beyond_noise = end.winner > 0;
    t.result.plan.clear();
    take(jobs[end.winner], end.winner_ns);
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
    p.best_ns = t.population.empty() ? 0 : t.population.front().median_ns;
    p.outcomes = t.result.outcomes;
    p.elapsed_s = elapsed();
    p.comparing = comparing;
    options_.on_progress(p);
  }

  Database& db_;
  const TuneOptions& options_;
  WorkerPool pool_;
  Clock::time_point begin_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::unique_ptr<WorkerPool> one_worker_;  // for comparisons
  int64_t measured_ = 0, ids_ = 0, jobs_ = 0;
  double worked_s_ = 0;  // that workers took for jobs_
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
  }
  return "";
}

std::vector<TuneResult> tune(const std::vector<TuneTask>& tasks, Database& db, const TuneOptions& options) {
  return Search(db, options).run(tasks);
}

ScheduleProvider database_schedules(const std::string& path, int threads, Warn warn) {
  auto db = std::make_shared<Database>(path, Database::Mode::read);
  return [db, threads, warn](const PrimFunc& f, const Target& target) -> std::optional<ScheduleChoice> {
    std::optional<ScheduleChoice> choice;
    size_t unusable = 0;
    db->by_speed(workload_key(f), record_target(target), threads, [&](const Record& r) {
      std::string why = why_unusable(r, f, &target);
      if (why.empty() && !is_known_to_help(*db, r, f, target)) {
        why = "it was never compared with the default, which has no record; `nestor tune` does that";
        unusable = kMostUnusable - 1;  // so it is with slower ones
      }
      if (why.empty()) {
        const std::string name = "record " + std::to_string(r.id) + " of " + db->path();
        choice = ScheduleChoice{schedules::parse_primitives(r.trace, name), "database"};
        return true;
      }
      const bool last = ++unusable == kMostUnusable;
      if (warn) warn(is_not_used(r, db->path(), f, why) + (last ? "; slower ones aren't looked at" : ""));
      return last;
    });
    return choice;
  };
}

}  // namespace nestor
