// The state of a pool's workers.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nestor/error.h"
#include "nestor/tune.h"
#include "tuner/job.h"
#include "tuner/worker_process.h"

namespace nestor {

// What a worker does that has no job of the batch: nothing; what some worker could do, to see whether it
// works; a job that another one has taken over meanwhile.
inline constexpr int kIdle = -1, kProbe = -2, kOutrun = -3;

struct Worker {
  WorkerProcess process;
  int job = kIdle;                                  // index into the batch, or one of the above
  Job current;                                      // what it was asked
  std::vector<std::pair<int, Record>> failed = {};  // in a row, not yet reported: job and what came of it
  std::string last_failure;
  bool fresh = false;  // it was started, and has had no job
  bool dismissed = false;
  bool has_answered = false;
  size_t in_a_row = 0;  // failures, those of runs before among them
  size_t strikes = 0;   // of these, before it has answered anything, at jobs that others got
  size_t answers = 0, contradicted = 0, begun = 0;
  bool proven = false;    // its word was confirmed by another's
  bool sits_out = false;  // for the rest of this run
  std::chrono::steady_clock::time_point begin = {}, deadline = {};
  double limit_s = 0;  // from one to the other
};

struct WorkerPool::Impl {
  WorkerPoolOptions options;
  std::vector<Worker> workers;
  std::optional<Job> answered;  // the last job that a worker could do
  int64_t probes = 0;
  double slowest_s = 0;  // of the jobs that could be done
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
  // Whether its process runs. One that can't be started is out.
  bool runs(Worker& w) {
    if (w.process.pid > 0) return true;
    try {
      w.process.start();
      w.fresh = true;
      return true;
    } catch (const UserError& e) {
      dismiss(w, "before it began: " + e.diagnostic().message);
      return false;
    }
  }
  void assign(Worker& w, const Job& job, int index) {
    w.job = index;
    w.current = job;
    w.process.to_write = to_json_line(job) + "\n";
    w.begin = std::chrono::steady_clock::now();
    // To start takes time, too: of a worker elsewhere, and of the oracle.
    w.limit_s = (w.fresh ? 2 : 1) * (job.timeout_s > 0 ? job.timeout_s : options.timeout_s);
    w.fresh = false;
    w.deadline = w.begin + std::chrono::milliseconds(static_cast<int64_t>(w.limit_s * 1000));
  }
  void dismiss(Worker& w, const std::string& why) {
    w.process.stop();
    w.dismissed = true;
    if (options.warn) options.warn("worker `" + w.process.name() + "` is out " + why);
  }
};

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace nestor
