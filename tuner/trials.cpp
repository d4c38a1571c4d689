// Which measurements are trusted. A failed candidate is tried again, by another worker if there is one; the
// failure counts for this run only. A new fastest candidate is accepted after a second measurement, by
// another worker if there is one. If the two differ much, a third one decides. So neither a lucky sample nor
// a worker that reports wrong times makes a candidate the best.
#include "tuner/trials.h"

#include <algorithm>
#include <thread>

#include "tuner/fields.h"
#include "tuner/job.h"

namespace nestor {

namespace {

constexpr double kTimingSeconds = 0.06;  // per candidate
constexpr double kAgree = 2;             // times as far apart as this may be noise
constexpr double kLie = 10;              // and as far as this aren't a slower machine
constexpr size_t kUnproven = 2;          // jobs of a batch for a worker that nothing has confirmed
constexpr int kMostAttempts = 4;         // at a second measurement
constexpr double kPatience = 16;         // times as long for a default that took too long
constexpr auto kPoll = std::chrono::milliseconds(20);  // for what another tuner measures

bool agree(const Record& a, const Record& b) {
  return std::max(a.median_ns, b.median_ns) <= kAgree * std::min(a.median_ns, b.median_ns);
}

std::string in_us(double ns) {
  return std::to_string(ns / 1e3) + " us";
}

}  // namespace

Job Trials::job_of(const Task& t, const std::string& trace) {
  Job j;
  j.id = ++ids_;
  j.func = t.text;
  j.trace = trace;
  j.target = options_.target.name;
  j.threads = options_.threads;
  j.seed = options_.seed;
  j.seconds = kTimingSeconds;
  j.cutoff_ns = t.best_ns();
  j.timeout_s = t.timeout_s;
  j.least_ns = t.least_ns;
  if (const auto f = t.failed.find(trace); f != t.failed.end()) j.not_on = f->second.worker;
  return j;
}

// Stores the result of a job, before anything is said of it. Its id is then the database's.
void Trials::store(Task& t, Record& r) {
  r.workload = t.key;
  r.target = record_target(options_.target);
  if (const auto plan = t.plans.find(r.trace); plan != t.plans.end()) r.plan = plan->second;
  db_.wait_at_most(std::max(1.0, budget_.left()));
  r.id = db_.insert(r);
  ++budget_.measured;
  ++t.result.measured;
}

void Trials::measure(Task& t, const std::vector<std::string>& traces, double until) {
  std::vector<Job> jobs;
  for (const std::string& trace : traces) jobs.push_back(job_of(t, trace));
  std::map<std::string, Record> known;  // that others measured
  RunControl control;
  control.unproven_jobs = kUnproven;
  control.stop = [&] { return budget_.is_cut() || budget_.elapsed() >= until; };
  control.cut = [&] { return budget_.is_cut() || budget_.elapsed() >= until + 2 * seconds_a_job(); };
  control.begin = [&](const Job& job) {
    claims_.wait_at_most(std::max(1.0, budget_.left()));
    if (!claims_.claim(t.name, job.trace, job.timeout_s)) return false;
    const auto found = db_.find_right(t.key, record_target(options_.target), options_.threads, job.trace);
    if (!found || !bad_figures(*found).empty()) return true;
    claims_.release(t.name, job.trace);
    known[job.trace] = *found;
    return false;
  };
  const auto on_result = [&](Record& r) {
    store(t, r);
    claims_.release(t.name, r.trace);
  };
  while (!jobs.empty() && !control.stop() && !pool_.all_out()) {
    const std::vector<Record> results = pool_.run(jobs, on_result, control);
    for (const Record& r : results) {
      const auto job =
          std::find_if(jobs.begin(), jobs.end(), [&](const Job& j) { return j.trace == r.trace; });
      const WorkerPool::Done done = pool_.how(job->id);
      jobs.erase(job);
      t.learn(r, done.worker);
      if (r.outcome != Outcome::ok) continue;
      t.slowest_s = std::max(t.slowest_s, done.seconds);
      worked_s_ += done.seconds;
      ++jobs_;
    }
    for (const auto& [trace, r] : known) {
      std::erase_if(jobs, [&](const Job& j) { return j.trace == trace; });
      t.learn(r, kNobody);
      ++t.result.resumed;
    }
    if (results.empty() && known.empty()) std::this_thread::sleep_for(kPoll);
    known.clear();
    confirm_best(t, control);
  }
  t.result.untried += static_cast<int64_t>(jobs.size());
  t.note_best(budget_.elapsed());
}

void Trials::measure_default(Task& t, double until) {
  const double timeout_s = t.timeout_s;
  for (int attempt = 0; attempt < kMostAttempts && !t.find(t.start_text); ++attempt) {
    if (budget_.is_cut() || budget_.elapsed() >= until) break;
    measure(t, {t.start_text}, until);
    std::erase(t.again, t.start_text);
    const auto failed = t.failed.find(t.start_text);
    if (failed == t.failed.end()) break;
    if (failed->second.outcome == Outcome::timeout) {
      const double longer = std::min(kPatience * t.timeout_s, budget_.left() / 2);
      if (longer <= t.timeout_s) break;
      t.timeout_s = longer;
    } else if (failed->second.outcome < Outcome::crash && attempt > 0) {
      break;
    }
  }
  // Where the default is slow, candidates may be.
  t.timeout_s = std::max(timeout_s, t.find(t.start_text) ? 2 * t.slowest_s : 0);
}

// A second measurement, by another worker where there is one; it is stored only if it fails.
std::optional<Trials::Second> Trials::measure_again(Task& t, const std::string& trace, int not_on,
                                                    const RunControl& control) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Job job = job_of(t, trace);
    job.cutoff_ns = 0;
    job.not_on = not_on;
    RunControl now = control;
    now.begin = [](const Job&) { return true; };
    now.unproven_jobs = SIZE_MAX;
    const std::vector<Record> results = pool_.run(
        {job}, [](Record&) {}, now);
    if (results.empty()) return std::nullopt;
    Record r = results[0];
    const int worker = pool_.how(job.id).worker;
    if (r.outcome == Outcome::ok) return Second{std::move(r), worker};
    store(t, r);
    ++t.result.outcomes[static_cast<size_t>(r.outcome)];
    not_on = worker;
    if (attempt + 1 == kMostAttempts) return Second{std::move(r), worker};
  }
  return std::nullopt;
}

void Trials::confirm_best(Task& t, const RunControl& control) {
  while (!t.population.empty() && !control.stop()) {
    const Record first = t.population.front();
    if (t.confirmed.count(first.trace) || (t.population.size() < 2 && !pool_.any_unproven())) return;
    const auto by = t.measured_by.find(first.trace);
    const int claimant = by == t.measured_by.end() ? kNobody : by->second;
    const auto second = measure_again(t, first.trace, claimant, control);
    if (!second) return;
    if (second->record.outcome != Outcome::ok) {
      disbelieve(t, first, claimant, "measured again it failed: " + second->record.detail);
      continue;
    }
    if (agree(first, second->record)) {
      believe(t, first, second->record, {claimant, second->worker});
      continue;
    }
    const bool first_is_faster = first.median_ns < second->record.median_ns;
    const auto third = measure_again(t, first.trace, first_is_faster ? claimant : second->worker, control);
    if (!third) return;
    const std::string said = in_us(first.median_ns) + ", " + in_us(second->record.median_ns) + " and " +
                             in_us(third->record.median_ns) + " for one schedule";
    const bool is_ok = third->record.outcome == Outcome::ok;
    if (is_ok && agree(first, third->record)) {
      believe(t, first, third->record, {claimant, third->worker});
      suspect(second->worker, first, second->record, said);
      continue;
    }
    disbelieve(t, first, claimant, "measured again: " + said);
    if (is_ok && agree(second->record, third->record)) {
      Record truth = second->record;
      store(t, truth);
      t.learn(truth, second->worker);
      believe(t, truth, third->record, {second->worker, third->worker});
      suspect(claimant, truth, first, said);
    } else {
      t.again.push_back(first.trace);
    }
  }
}

// Two measurements agree: the record has the samples of both, where it is this run's.
void Trials::believe(Task& t, Record first, const Record& second, const std::vector<int>& workers) {
  t.forget(first);
  first.samples_ns.insert(first.samples_ns.end(), second.samples_ns.begin(), second.samples_ns.end());
  if (first.samples_ns.size() > kMostSamples) first.samples_ns.resize(kMostSamples);
  first.median_ns = median(first.samples_ns);
  if (workers[0] != kNobody) db_.revise(first);
  t.confirmed.insert(first.trace);
  t.put(first, workers[0]);
  if (workers[0] == workers[1]) return;
  for (const int w : workers)
    if (w != kNobody) pool_.confirm(w);
}

// A right result was none: the record says so from now on. One of another run stays what it was there: it may
// have been another day's truth.
void Trials::disbelieve(Task& t, Record r, int claimant, const std::string& why) {
  t.forget(r);
  if (claimant == kNobody) return;
  --t.result.outcomes[static_cast<size_t>(Outcome::ok)];
  ++t.result.outcomes[static_cast<size_t>(Outcome::bad_answer)];
  r.outcome = Outcome::bad_answer;
  r.detail = one_line(why, kLongestDetail);
  r.samples_ns.clear();
  r.median_ns = 0;
  db_.revise(r);
}

// The worker said something far from the truth. Where it is out for that, nothing of it is believed that
// nobody else has confirmed.
void Trials::suspect(int worker, const Record& truth, const Record& said, const std::string& what) {
  const double ratio = std::max(truth.median_ns, said.median_ns) / std::min(truth.median_ns, said.median_ns);
  if (worker == kNobody || ratio < kLie || !pool_.contradict(worker, what)) return;
  for (Task* t : tasks_) {
    const std::vector<Record> population = t->population;
    for (const Record& r : population) {
      const auto by = t->measured_by.find(r.trace);
      if (by == t->measured_by.end() || by->second != worker || t->confirmed.count(r.trace)) continue;
      disbelieve(*t, r, worker, "its worker isn't trusted: " + what);
      t->again.push_back(r.trace);
    }
  }
}

}  // namespace nestor
