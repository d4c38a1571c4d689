// Worker processes. A candidate's code may crash, hang or write where it shouldn't, so none of it runs in the
// tuner: each worker is a process that speaks JSON lines over its stdin and stdout (its stderr is passed
// through). A worker answers each job by one line. One that dies, stays silent beyond the limit or writes
// anything else costs the one job it had; it is killed with its process group and started again.
//
// Whose fault is a failure, the candidate's or the worker's? Three in a row are held back until the worker
// has been asked again for what some worker could do. Then they are reported, or given to others.
//
// A worker may be somebody else's machine, or a candidate that has run wild: it gets no more memory here than
// the longest answer takes, no more time than a job has, and can't stop the tuner by not reading.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>

#include "nestor/error.h"
#include "nestor/tune.h"
#include "tuner/job.h"

namespace nestor {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIdle = -1, kProbe = -2;
constexpr size_t kFailuresInARow = 3;
constexpr int64_t kFirstProbe = int64_t{1} << 40;  // an id that no job has

struct Worker {
  std::vector<std::string> argv;
  pid_t pid = -1;
  int in = -1, out = -1;                            // our ends: to its stdin, from its stdout
  std::string to_write;                             // of its job, what it hasn't read
  std::string answer;                               // what there is of it
  int job = kIdle;                                  // index into the batch
  std::vector<std::pair<int, Record>> failed = {};  // in a row, not yet reported: job and what came of it
  bool dismissed = false;
  bool has_answered = false;
  size_t strikes = 0;  // failures before it has answered anything, at jobs that others got
  Clock::time_point begin, deadline;
};

Worker worker_of(std::vector<std::string> argv) {
  Worker w;
  w.argv = std::move(argv);
  return w;
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

void start(Worker& w) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0)
    throw UserError(std::string("can't make a pipe for a worker: ") + strerror(errno));
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]);
    close(to[1]);
    throw UserError(std::string("can't make a pipe for a worker: ") + strerror(errno));
  }
  std::vector<char*> argv;
  for (std::string& a : w.argv) argv.push_back(a.data());
  argv.push_back(nullptr);
  w.pid = fork();
  if (w.pid < 0) throw UserError(std::string("can't start a worker: ") + strerror(errno));
  if (w.pid == 0) {
    setpgid(0, 0);  // so that a kill reaches what it started, and Ctrl-C reaches only the tuner
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that hangs must not outlive a tuner that was killed
    signal(SIGPIPE, SIG_DFL);          // which the tuner ignores
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  setpgid(w.pid, w.pid);
  close(to[0]);
  close(from[1]);
  w.in = to[1];
  w.out = from[0];
  fcntl(w.in, F_SETFL, O_NONBLOCK);
  w.answer.clear();
}

// Ends the process, with what it started, and says how it ended.
std::string stop(Worker& w) {
  close_fd(w.in);
  close_fd(w.out);
  if (w.pid <= 0) return "never started";
  kill(-w.pid, SIGKILL);
  int status = 0;
  while (waitpid(w.pid, &status, 0) < 0 && errno == EINTR) {
  }
  w.pid = -1;
  if (WIFSIGNALED(status)) return std::string("ended by signal ") + strsignal(WTERMSIG(status));
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

// Writes what the worker reads now; false where it never will.
bool write_some(Worker& w) {
  const ssize_t n = write(w.in, w.to_write.data(), w.to_write.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  w.to_write.erase(0, static_cast<size_t>(n));
  return true;
}

std::string join_words(const std::vector<std::string>& argv) {
  if (argv.size() == 3 && argv[1] == "-c") return argv[2];  // of the shell
  std::string out;
  for (const std::string& a : argv) out += (out.empty() ? "" : " ") + a;
  return out;
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

  bool any_left() const {
    return std::any_of(workers.begin(), workers.end(), [](const Worker& w) { return !w.dismissed; });
  }
  bool others_left(const Worker& one) const {
    return std::any_of(workers.begin(), workers.end(), [&](const Worker& w) {
      return &w != &one && !w.dismissed && (w.has_answered || w.strikes == 0);
    });
  }
  void assign(Worker& w, const Job& job, int index) {
    if (w.pid < 0) start(w);
    w.job = index;
    w.to_write = to_json_line(job) + "\n";
    w.begin = Clock::now();
    w.deadline = w.begin + std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  }
};

WorkerPool::WorkerPool(WorkerPoolOptions options) : impl_(std::make_unique<Impl>()) {
  signal(SIGPIPE, SIG_IGN);  // a dead worker shows as a failed write
  if (options.executable.empty()) options.executable = this_executable();
  for (int i = 0; i < options.local; ++i) impl_->workers.push_back(worker_of({options.executable, "worker"}));
  for (const std::string& command : options.commands)
    impl_->workers.push_back(worker_of({"/bin/sh", "-c", command}));
  if (impl_->workers.empty())
    throw UserError("the tuner has no worker: give --workers a number, or a command");
  impl_->options = std::move(options);
}

WorkerPool::~WorkerPool() {
  for (Worker& w : impl_->workers)
    if (w.pid > 0) stop(w);
}

size_t WorkerPool::left() const {
  return static_cast<size_t>(std::count_if(impl_->workers.begin(), impl_->workers.end(),
                                           [](const Worker& w) { return !w.dismissed; }));
}

WorkerPoolOptions WorkerPool::options_for_one() const {
  WorkerPoolOptions one = impl_->options;
  one.commands.clear();
  one.local = 0;
  for (size_t i = 0; i < impl_->workers.size() && one.local == 0 && one.commands.empty(); ++i) {
    if (impl_->workers[i].dismissed) continue;
    const auto local = static_cast<size_t>(impl_->options.local);
    if (i < local)
      one.local = 1;
    else
      one.commands = {impl_->options.commands[i - local]};
  }
  return one;
}

std::vector<Record> WorkerPool::run(const std::vector<Job>& jobs,
                                    const std::function<void(Record&)>& on_result,
                                    const std::function<bool()>& stop_now) {
  std::vector<std::optional<Record>> results(jobs.size());
  std::deque<int> waiting;
  for (size_t i = 0; i < jobs.size(); ++i) waiting.push_back(static_cast<int>(i));
  size_t done = 0;
  std::set<const Worker*> sits_out;  // for the rest of this run
  Job probe;

  const auto report = [&](int job, Record r) {
    auto& result = results[static_cast<size_t>(job)];
    result = std::move(r);
    ++done;
    on_result(*result);
  };
  const auto report_failed = [&](Worker& w) {
    for (auto& [job, r] : w.failed) report(job, std::move(r));
    w.failed.clear();
  };
  const auto dismiss = [&](Worker& w) {
    stop(w);
    w.dismissed = true;
    if (impl_->options.warn)
      impl_->options.warn("worker `" + join_words(w.argv) + "` is out after " +
                          std::to_string(w.failed.size() + w.strikes) +
                          " failures in a row, the last one: " + w.failed.back().second.detail);
    if (!impl_->any_left()) return report_failed(w);
    for (const auto& [job, r] : w.failed) waiting.push_back(job);
    w.failed.clear();
  };
  const auto job_of = [&](const Worker& w) -> const Job& {
    return w.job == kProbe ? probe : jobs[static_cast<size_t>(w.job)];
  };
  const auto finish = [&](Worker& w, Record r) {
    const int job = w.job;
    w.job = kIdle;
    const bool works = r.outcome < Outcome::crash;
    w.has_answered = w.has_answered || works;
    if (works) report_failed(w);
    if (job == kProbe) {
      if (!works) dismiss(w);
      return;
    }
    if (works) {
      if (r.outcome == Outcome::ok) impl_->answered = jobs[static_cast<size_t>(job)];
      return report(job, std::move(r));
    }
    w.failed.emplace_back(job, std::move(r));
    if (w.failed.size() + w.strikes < kFailuresInARow) return;
    if (!impl_->answered) return dismiss(w);
    probe = *impl_->answered;
    probe.id = kFirstProbe + impl_->probes++;
    impl_->assign(w, probe, kProbe);
  };
  const auto lose = [&](Worker& w, Outcome outcome, const std::string& why) {
    const std::string how = stop(w);
    Record r = record_of(job_of(w));
    r.outcome = outcome;
    r.detail = outcome == Outcome::timeout ? why : "the worker " + how;
    finish(w, std::move(r));
  };
  // Takes what has come.
  const auto read_from = [&](Worker& w) {
    char chunk[65536];
    const ssize_t n = read(w.out, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) return lose(w, Outcome::crash, "");
    w.answer.append(chunk, static_cast<size_t>(n));
    const size_t end = w.answer.find('\n');
    const bool long_line = std::min(end, w.answer.size()) > kLongestAnswer;
    if (end == std::string::npos && !long_line) return;
    const double elapsed_ns = std::chrono::duration<double, std::nano>(Clock::now() - w.begin).count();
    Record r = long_line ? bad_answer(job_of(w), "the worker's answer is longer than 1 MiB")
               : end + 1 < w.answer.size()
                   ? bad_answer(job_of(w), "the worker's answer is more than one line")
                   : read_answer(job_of(w), w.answer.substr(0, end), elapsed_ns);
    w.answer.clear();
    if (r.outcome == Outcome::bad_answer) stop(w);
    finish(w, std::move(r));
  };

  while (done < jobs.size() && impl_->any_left()) {
    if (!waiting.empty() && stop_now()) {
      done += waiting.size();
      waiting.clear();
    }
    for (Worker& w : impl_->workers) {
      if (w.dismissed || w.job != kIdle || sits_out.count(&w)) continue;
      if (waiting.empty()) {
        if (!w.failed.empty() && !w.has_answered && impl_->others_left(w)) {
          // It may be one that never works: others get these jobs.
          for (const auto& [job, r] : w.failed) waiting.push_back(job);
          w.strikes += w.failed.size();
          w.failed.clear();
          sits_out.insert(&w);
          continue;
        }
        // Nothing more tells whose fault the last failures were.
        report_failed(w);
        continue;
      }
      const int index = waiting.front();
      waiting.pop_front();
      impl_->assign(w, jobs[static_cast<size_t>(index)], index);
    }
    std::vector<pollfd> fds;
    std::vector<Worker*> owners;
    auto nearest = Clock::now() + std::chrono::seconds(1);
    for (Worker& w : impl_->workers) {
      if (w.job == kIdle) continue;
      fds.push_back({w.out, POLLIN, 0});
      fds.push_back({w.to_write.empty() ? -1 : w.in, POLLOUT, 0});  // poll passes over -1
      owners.push_back(&w);
      nearest = std::min(nearest, w.deadline);
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(nearest - Clock::now()).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(wait, 0) + 1));
    for (size_t i = 0; i < owners.size(); ++i) {
      Worker& w = *owners[i];
      if (fds[2 * i].revents != 0) read_from(w);
      if (w.job != kIdle && fds[2 * i + 1].revents != 0 && !write_some(w)) lose(w, Outcome::crash, "");
      if (w.job != kIdle && Clock::now() >= w.deadline)
        lose(w, Outcome::timeout, "no answer in " + std::to_string(impl_->options.timeout_s) + " s");
    }
  }
  std::vector<Record> finished;
  for (std::optional<Record>& r : results)
    if (r) finished.push_back(std::move(*r));
  return finished;
}

}  // namespace nestor
