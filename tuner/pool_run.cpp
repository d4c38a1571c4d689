// One batch of jobs on the workers of a pool.
//
// Is a failure the fault of the candidate or of the worker? After three in a row, they are held back, and the
// worker gets jobs that some worker could do, three at most. If it succeeds, the failures are reported; if it
// fails, they go to other workers. A batch doesn't wait for a slow worker while another one is idle: that
// worker gets the job too.
#include <poll.h>

#include <deque>
#include <set>

#include "tuner/pool_state.h"

namespace nestor {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFailuresInARow = 3, kProbes = 3;
constexpr int64_t kFirstProbe = int64_t{1} << 40;  // an id that no job has
constexpr int kMostWaitMs = 50;                    // until `cut` is asked again
// A worker is slow that takes longer than this; so many times as long as the slowest right one took.
constexpr double kFirstPatienceS = 5, kLeastPatienceS = 1, kSlower = 4;

// The compiler would refuse it again; nothing else is known of a worker whose answer that is.
bool is_refusal(Outcome o) {
  return o == Outcome::illegal || o == Outcome::compile_error || o == Outcome::wrong_result;
}

class PoolRun {
 public:
  PoolRun(WorkerPool::Impl& pool, const std::vector<Job>& jobs, const std::function<void(Record&)>& on_result,
          const RunControl& control)
      : pool_(pool), jobs_(jobs), on_result_(on_result), control_(control), results_(jobs.size()) {
    for (size_t i = 0; i < jobs.size(); ++i) waiting_.push_back(static_cast<int>(i));
    pool_.done.clear();
    for (Worker& w : pool_.workers) {
      w.sits_out = false;
      w.begun = 0;
      w.failed.clear();
    }
  }

  std::vector<Record> run() {
    while (pool_.any_left()) {
      if (control_.cut()) return cut();
      if (give_jobs()) continue;
      if (!awaits_any()) break;
      wait_for_answers();
    }
    return finished();
  }

 private:
  void report(int job, Record r) {
    auto& result = results_[static_cast<size_t>(job)];
    result = std::move(r);
    on_result_(*result);
  }
  void report_failed(Worker& w) {
    for (auto& [job, r] : w.failed) report(job, std::move(r));
    w.failed.clear();
  }
  // What it failed at is for others.
  void give_back(Worker& w) {
    for (const auto& [job, r] : w.failed) waiting_.push_back(job);
    w.failed.clear();
  }
  std::vector<Record> finished() {
    std::vector<Record> out;
    for (std::optional<Record>& r : results_)
      if (r) out.push_back(std::move(*r));
    return out;
  }
  std::vector<Record> cut() {
    for (Worker& w : pool_.workers) {
      if (w.job != kIdle) w.process.stop();
      w.job = kIdle;
      report_failed(w);
    }
    return finished();
  }

  bool may_do(const Worker& w, const Job& job) const {
    if (job.only_on >= 0) return pool_.index_of(w) == job.only_on;
    return job.not_on != pool_.index_of(w) || !pool_.others_left(w);
  }
  // The next job for the worker, taken from those that wait.
  std::optional<int> next_for(const Worker& w) {
    if (!w.proven && w.begun >= control_.unproven_jobs && pool_.others_left(w)) return std::nullopt;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Job& job = jobs_[static_cast<size_t>(*it)];
      if (!may_do(w, job)) {
        ++it;
        continue;
      }
      const int index = *it;
      it = waiting_.erase(it);
      if (control_.begin(job)) return index;
    }
    return std::nullopt;
  }
  // Whether a worker gave jobs back, which those before it may take.
  bool give_jobs() {
    bool gave_back = false;
    if (!waiting_.empty() && control_.stop()) waiting_.clear();
    for (Worker& w : pool_.workers) {
      if (w.dismissed || w.job != kIdle || w.sits_out) continue;
      if (!waiting_.empty() && !pool_.runs(w)) {
        if (!pool_.any_left()) report_failed(w);
        give_back(w);
        gave_back = true;
      } else if (const auto index = next_for(w)) {
        pool_.assign(w, jobs_[static_cast<size_t>(*index)], *index);
        ++w.begun;
      } else if (!w.failed.empty() && !w.has_answered && pool_.others_left(w)) {
        // It may be one that never works: others get these jobs.
        w.strikes += w.failed.size();
        give_back(w);
        w.sits_out = gave_back = true;
      } else {
        report_failed(w);  // nothing more tells whose fault the last failures were
      }
    }
    return take_over() || gave_back;
  }
  // Where a worker is slow, and another one has nothing to do, that one gets its job, and what it failed at.
  bool take_over() {
    const auto can_take = [&](const Worker& w) {
      return !w.dismissed && !w.sits_out && w.job == kIdle &&
             (w.proven || w.begun < control_.unproven_jobs || !pool_.others_left(w));
    };
    if (!waiting_.empty() || control_.stop() ||
        std::none_of(pool_.workers.begin(), pool_.workers.end(), can_take))
      return false;
    const double patience_s =
        pool_.slowest_s > 0 ? std::max(kLeastPatienceS, kSlower * pool_.slowest_s) : kFirstPatienceS;
    for (Worker& w : pool_.workers) {
      if (w.job == kIdle || seconds_since(w.begin) < patience_s) continue;
      if (w.job >= 0 && w.current.only_on < 0 && taken_over_.insert(w.job).second) {
        waiting_.push_back(w.job);
        w.job = kOutrun;
      }
      if (w.job == kProbe) give_back(w);
    }
    return !waiting_.empty();
  }

  void dismiss(Worker& w) {
    pool_.dismiss(
        w, "after " + std::to_string(w.in_a_row) + " failures in a row, the last one: " + w.last_failure);
    if (!pool_.any_left()) return report_failed(w);
    give_back(w);
  }
  void finish(Worker& w, Record r) {
    const int job = w.job;
    w.job = kIdle;
    if (r.outcome == Outcome::ok) {
      w.has_answered = true;
      w.in_a_row = 0;
      report_failed(w);
      if (job < 0) return;
      ++w.answers;
      pool_.answered = w.current;
      pool_.slowest_s = std::max(pool_.slowest_s, seconds_since(w.begin));
      pool_.done[r.id] = {pool_.index_of(w), seconds_since(w.begin)};
      return report(job, std::move(r));
    }
    if (job == kProbe) {
      w.last_failure = r.detail;
      return ++w.in_a_row < kFailuresInARow + kProbes ? ask_again(w) : dismiss(w);
    }
    w.last_failure = r.detail;
    if (job >= 0) {
      pool_.done[r.id] = {pool_.index_of(w), seconds_since(w.begin)};
      w.failed.emplace_back(job, std::move(r));
    }
    if (++w.in_a_row < kFailuresInARow) return;
    if (!pool_.answered) {
      const bool refused = std::all_of(w.failed.begin(), w.failed.end(),
                                       [](const auto& f) { return is_refusal(f.second.outcome); });
      return refused ? report_failed(w) : dismiss(w);
    }
    w.in_a_row = kFailuresInARow;
    ask_again(w);
  }
  // For what some worker could do.
  void ask_again(Worker& w) {
    if (!pool_.runs(w)) return pool_.any_left() ? give_back(w) : report_failed(w);
    Job probe = *pool_.answered;
    probe.id = kFirstProbe + pool_.probes++;
    pool_.assign(w, probe, kProbe);
  }
  void lose(Worker& w, Outcome outcome, const std::string& why) {
    const std::string how = w.process.stop();
    Record r = record_of(w.current);
    r.outcome = outcome;
    r.detail = outcome == Outcome::timeout ? why : "the worker " + how;
    finish(w, std::move(r));
  }
  void read_from(Worker& w) {
    if (!w.process.read_some()) return lose(w, Outcome::crash, "");
    std::string& answer = w.process.answer;
    const size_t end = answer.find('\n');
    const bool long_line = std::min(end, answer.size()) > kLongestAnswer;
    if (end == std::string::npos && !long_line) return;
    Record r = long_line ? bad_answer(w.current, "the worker's answer is longer than 1 MiB")
               : end + 1 < answer.size()
                   ? bad_answer(w.current, "the worker's answer is more than one line")
                   : read_answer(w.current, answer.substr(0, end), seconds_since(w.begin) * 1e9);
    answer.clear();
    if (r.outcome == Outcome::bad_answer) w.process.stop();
    finish(w, std::move(r));
  }

  // Whether a result of this batch is still to come.
  bool awaits_any() const {
    const auto idle = [](const Worker& w) { return !w.dismissed && !w.sits_out && w.job == kIdle; };
    const auto busy = [](const Worker& w) { return w.job >= 0 || (w.job == kProbe && !w.failed.empty()); };
    return std::any_of(pool_.workers.begin(), pool_.workers.end(), busy) ||
           (!waiting_.empty() && std::none_of(pool_.workers.begin(), pool_.workers.end(), idle));
  }
  void wait_for_answers() {
    std::vector<pollfd> fds;
    std::vector<Worker*> owners;
    auto nearest = Clock::now() + std::chrono::milliseconds(kMostWaitMs);
    for (Worker& w : pool_.workers) {
      if (w.job == kIdle) continue;
      fds.push_back({w.process.out, POLLIN, 0});
      fds.push_back({w.process.to_write.empty() ? -1 : w.process.in, POLLOUT, 0});  // poll passes over -1
      fds.push_back({w.process.err, POLLIN, 0});
      owners.push_back(&w);
      nearest = std::min(nearest, w.deadline);
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(nearest - Clock::now()).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(wait, 0) + 1));
    for (size_t i = 0; i < owners.size(); ++i) {
      Worker& w = *owners[i];
      if (fds[3 * i + 2].revents != 0) w.process.hear();
      if (fds[3 * i].revents != 0) read_from(w);
      if (w.job != kIdle && fds[3 * i + 1].revents != 0 && !w.process.write_some())
        lose(w, Outcome::crash, "");
      if (w.job != kIdle && Clock::now() >= w.deadline)
        lose(w, Outcome::timeout, "no answer in " + written(w.limit_s) + " s");
    }
  }
  static std::string written(double seconds) {
    std::string text = std::to_string(seconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  WorkerPool::Impl& pool_;
  const std::vector<Job>& jobs_;
  const std::function<void(Record&)>& on_result_;
  const RunControl& control_;
  std::vector<std::optional<Record>> results_;
  std::deque<int> waiting_;
  std::set<int> taken_over_;
};

}  // namespace

std::vector<Record> WorkerPool::run(const std::vector<Job>& jobs,
                                    const std::function<void(Record&)>& on_result,
                                    const RunControl& control) {
  return PoolRun(*impl_, jobs, on_result, control).run();
}

}  // namespace nestor
