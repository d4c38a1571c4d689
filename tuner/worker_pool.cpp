// Worker processes. A candidate's code may crash, hang or write where it shouldn't, so none of it runs in the
// tuner: each worker is a process that speaks JSON lines over its stdin and stdout. A worker answers each job
// by one line. One that dies, stays silent beyond the limit or writes anything else costs the one job it had;
// it is killed with its process group and started again.
//
// Whose fault is a failure, the candidate's or the worker's? Three in a row are held back until the worker
// has been asked again, three times at most, for what some worker could do. Then they are reported, or given
// to others.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "nestor/error.h"
#include "nestor/tune.h"
#include "tuner/job.h"
#include "tuner/worker_process.h"

namespace nestor {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIdle = -1, kProbe = -2;
constexpr size_t kFailuresInARow = 3, kProbes = 3;
constexpr int64_t kFirstProbe = int64_t{1} << 40;  // an id that no job has
constexpr int kMostWaitMs = 50;                    // until `cut` is asked again
// A worker is out when so many of its times were contradicted, if that is one in so many that it gave.
constexpr size_t kContradictions = 3, kOneIn = 5;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Worker {
  WorkerProcess process;
  int job = kIdle;                                  // index into the batch
  Job probe;                                        // where that is kProbe
  std::vector<std::pair<int, Record>> failed = {};  // in a row, not yet reported: job and what came of it
  std::string last_failure;
  bool dismissed = false;
  bool has_answered = false;
  size_t in_a_row = 0;  // failures, those of runs before among them
  size_t strikes = 0;   // of these, before it has answered anything, at jobs that others got
  size_t answers = 0, contradicted = 0, begun = 0;
  bool proven = false;    // its word was confirmed by another's
  bool sits_out = false;  // for the rest of this run
  Clock::time_point begin = {}, deadline = {};
  double limit_s = 0;  // from one to the other
};

// The compiler would refuse it again; nothing else is known of a worker whose answer that is.
bool is_refusal(Outcome o) {
  return o == Outcome::illegal || o == Outcome::compile_error || o == Outcome::wrong_result;
}

}  // namespace

std::string this_executable() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, n > 0 ? static_cast<size_t>(n) : 0);
}

struct WorkerPool::Impl {
  WorkerPoolOptions options;
  std::vector<Worker> workers;
  std::optional<Job> answered;  // the last job that a worker could do
  int64_t probes = 0;
  std::map<int64_t, Done> done;

  int index_of(const Worker& w) const { return static_cast<int>(&w - workers.data()); }
  bool any_left() const {
    return std::any_of(workers.begin(), workers.end(), [](const Worker& w) { return !w.dismissed; });
  }
  bool others_left(const Worker& one) const {
    return std::any_of(workers.begin(), workers.end(), [&](const Worker& w) {
      return &w != &one && !w.dismissed && (w.has_answered || w.strikes == 0);
    });
  }
  void assign(Worker& w, const Job& job, int index) {
    const bool fresh = w.process.pid < 0;
    if (fresh) w.process.start();
    w.job = index;
    w.process.to_write = to_json_line(job) + "\n";
    w.begin = Clock::now();
    // To start takes time, too: of a worker elsewhere, and of the oracle.
    w.limit_s = (fresh ? 2 : 1) * (job.timeout_s > 0 ? job.timeout_s : options.timeout_s);
    w.deadline = w.begin + std::chrono::milliseconds(static_cast<int64_t>(w.limit_s * 1000));
  }
  void dismiss(Worker& w, const std::string& why) {
    w.process.stop();
    w.dismissed = true;
    if (options.warn) options.warn("worker `" + w.process.name() + "` is out " + why);
  }
};

namespace {

// One batch of jobs on the workers of a pool.
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
    }
  }

  std::vector<Record> run() {
    while (pool_.any_left()) {
      if (control_.cut()) return cut();
      const bool gave_back = give_jobs();
      if (!wait_for_answers() && !gave_back) break;
    }
    return finished();
  }

 private:
  const Job& job_of(const Worker& w) const {
    return w.job == kProbe ? w.probe : jobs_[static_cast<size_t>(w.job)];
  }
  void report(int job, Record r) {
    auto& result = results_[static_cast<size_t>(job)];
    result = std::move(r);
    on_result_(*result);
  }
  void report_failed(Worker& w) {
    for (auto& [job, r] : w.failed) report(job, std::move(r));
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
      if (const auto index = next_for(w)) {
        pool_.assign(w, jobs_[static_cast<size_t>(*index)], *index);
        ++w.begun;
      } else if (!w.failed.empty() && !w.has_answered && pool_.others_left(w)) {
        // It may be one that never works: others get these jobs.
        for (const auto& [job, r] : w.failed) waiting_.push_back(job);
        w.strikes += w.failed.size();
        w.failed.clear();
        w.sits_out = gave_back = true;
      } else {
        report_failed(w);  // nothing more tells whose fault the last failures were
      }
    }
    return gave_back;
  }

  void dismiss(Worker& w) {
    pool_.dismiss(
        w, "after " + std::to_string(w.in_a_row) + " failures in a row, the last one: " + w.last_failure);
    if (!pool_.any_left()) return report_failed(w);
    for (const auto& [job, r] : w.failed) waiting_.push_back(job);
    w.failed.clear();
  }
  void finish(Worker& w, Record r) {
    const int job = w.job;
    w.job = kIdle;
    if (r.outcome == Outcome::ok) {
      w.has_answered = true;
      w.in_a_row = 0;
      report_failed(w);
      if (job == kProbe) return;
      ++w.answers;
      pool_.answered = jobs_[static_cast<size_t>(job)];
      pool_.done[r.id] = {pool_.index_of(w), seconds_since(w.begin)};
      return report(job, std::move(r));
    }
    if (job == kProbe) {
      w.last_failure = r.detail;
      return ++w.in_a_row < kFailuresInARow + kProbes ? ask_again(w) : dismiss(w);
    }
    pool_.done[r.id] = {pool_.index_of(w), seconds_since(w.begin)};
    w.last_failure = r.detail;
    w.failed.emplace_back(job, std::move(r));
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
    w.probe = *pool_.answered;
    w.probe.id = kFirstProbe + pool_.probes++;
    pool_.assign(w, w.probe, kProbe);
  }
  void lose(Worker& w, Outcome outcome, const std::string& why) {
    const std::string how = w.process.stop();
    Record r = record_of(job_of(w));
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
    Record r = long_line ? bad_answer(job_of(w), "the worker's answer is longer than 1 MiB")
               : end + 1 < answer.size()
                   ? bad_answer(job_of(w), "the worker's answer is more than one line")
                   : read_answer(job_of(w), answer.substr(0, end), seconds_since(w.begin) * 1e9);
    answer.clear();
    if (r.outcome == Outcome::bad_answer) w.process.stop();
    finish(w, std::move(r));
  }

  // False where no worker has a job.
  bool wait_for_answers() {
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
    if (owners.empty()) return false;
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
    return true;
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
};

}  // namespace

WorkerPool::WorkerPool(WorkerPoolOptions options) : impl_(std::make_unique<Impl>()) {
  signal(SIGPIPE, SIG_IGN);  // a dead worker shows as a failed write
  if (options.executable.empty()) options.executable = this_executable();
  const auto add = [&](std::vector<std::string> argv) {
    impl_->workers.emplace_back();
    impl_->workers.back().process.argv = std::move(argv);
  };
  for (int i = 0; i < options.local; ++i) add({options.executable, "worker"});
  for (const std::string& command : options.commands) add({"/bin/sh", "-c", command});
  if (impl_->workers.empty())
    throw UserError("the tuner has no worker: give --workers a number, or a command");
  impl_->options = std::move(options);
}

WorkerPool::~WorkerPool() {
  for (Worker& w : impl_->workers) w.process.stop();
}

size_t WorkerPool::left() const {
  return static_cast<size_t>(std::count_if(impl_->workers.begin(), impl_->workers.end(),
                                           [](const Worker& w) { return !w.dismissed; }));
}

WorkerPool::Done WorkerPool::how(int64_t job) const {
  const auto it = impl_->done.find(job);
  return it == impl_->done.end() ? Done() : it->second;
}

void WorkerPool::confirm(int worker) {
  impl_->workers.at(static_cast<size_t>(worker)).proven = true;
}

bool WorkerPool::contradict(int worker, const std::string& what) {
  Worker& w = impl_->workers.at(static_cast<size_t>(worker));
  ++w.contradicted;
  if (w.dismissed || left() < 2 || w.contradicted < kContradictions || w.contradicted * kOneIn < w.answers)
    return false;
  impl_->dismiss(w, "after " + std::to_string(w.contradicted) +
                        " times that others contradicted, the last one: " + what);
  return true;
}

bool WorkerPool::is_left(int worker) const {
  return worker >= 0 && !impl_->workers.at(static_cast<size_t>(worker)).dismissed;
}

bool WorkerPool::any_unproven() const {
  return left() > 1 && std::any_of(impl_->workers.begin(), impl_->workers.end(),
                                   [](const Worker& w) { return !w.dismissed && !w.proven; });
}

int WorkerPool::most_trusted() const {
  const Worker* best = nullptr;
  const auto rank = [](const Worker& w) {
    return std::make_tuple(w.proven, w.has_answered, -static_cast<int64_t>(w.contradicted));
  };
  for (const Worker& w : impl_->workers)
    if (!w.dismissed && (!best || rank(w) > rank(*best))) best = &w;
  return best ? impl_->index_of(*best) : -1;
}

std::vector<Record> WorkerPool::run(const std::vector<Job>& jobs,
                                    const std::function<void(Record&)>& on_result,
                                    const RunControl& control) {
  return PoolRun(*impl_, jobs, on_result, control).run();
}

}  // namespace nestor
