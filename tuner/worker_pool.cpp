// Worker processes. A candidate's code may crash, hang or write where it shouldn't, so none of it runs in the
// tuner: each worker is a process that speaks JSON lines over its stdin and stdout. A worker answers each job
// by one line. One that dies, stays silent beyond the limit or writes anything else costs the one job it had;
// it is killed with its process group and started again (pool_run.cpp).
#include <signal.h>
#include <unistd.h>

#include <tuple>

#include "nestor/error.h"
#include "tuner/pool_state.h"

namespace nestor {

namespace {

// A worker is out when so many of its times were contradicted, if that is one in so many that it gave.
constexpr size_t kContradictions = 3, kOneIn = 5;

}  // namespace

namespace {

std::vector<std::string>& command_set() {
  static std::vector<std::string> command;
  return command;
}

}  // namespace

void set_own_command(std::vector<std::string> command) {
  command_set() = std::move(command);
}

std::vector<std::string> own_command() {
  if (!command_set().empty()) return command_set();
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return {std::string(path, n > 0 ? static_cast<size_t>(n) : 0)};
}

WorkerPool::WorkerPool(WorkerPoolOptions options) : impl_(std::make_unique<Impl>()) {
  signal(SIGPIPE, SIG_IGN);  // a dead worker shows as a failed write
  const auto add = [&](std::vector<std::string> argv) {
    impl_->workers.emplace_back();
    impl_->workers.back().process.argv = std::move(argv);
  };
  std::vector<std::string> local = own_command();
  local.push_back("worker");
  for (int i = 0; i < options.local; ++i) add(local);
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

bool WorkerPool::any_unproven() const {
  return left() > 1 && std::any_of(impl_->workers.begin(), impl_->workers.end(),
                                   [](const Worker& w) { return !w.dismissed && !w.proven; });
}

int WorkerPool::most_trusted() const {
  const Worker* best = nullptr;
  const auto rank = [](const Worker& w) {
    return std::make_tuple(w.job == kIdle, w.proven, w.has_answered, -static_cast<int64_t>(w.contradicted));
  };
  for (const Worker& w : impl_->workers)
    if (!w.dismissed && (!best || rank(w) > rank(*best))) best = &w;
  return best ? impl_->index_of(*best) : -1;
}

}  // namespace nestor
