#include "src/python/bindings/threads.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nestor/unwanted.h"
#include "src/cli/program.h"

namespace nestor::python {

namespace {

using namespace std::chrono_literals;

// ---- The end of the interpreter

std::atomic<bool> ending = false;
std::atomic<int> coming_back = 0;  // threads between their work and Python
std::atomic<int> working = 0;      // threads of do_work
std::thread::id ends;              // the thread that ends it

// Called by atexit: Python's threads still run, and all of ours that come back later stay where they are.
void end() {
  ends = std::this_thread::get_id();
  ending = true;
  const auto until = std::chrono::steady_clock::now() + 2s;
  while (coming_back > 0 || (working > 0 && std::chrono::steady_clock::now() < until)) {
    const nb::gil_scoped_release others_run;
    std::this_thread::sleep_for(1ms);
  }
}

// ---- Work that Ctrl-C ends

struct Work {
  std::function<void()> run;
  std::exception_ptr error;
  std::vector<std::string> warnings;
  std::atomic<bool> unwanted = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};
thread_local Work* current = nullptr;

void* start(void* argument) {
  const std::unique_ptr<std::shared_ptr<Work>> held(static_cast<std::shared_ptr<Work>*>(argument));
  Work& w = **held;
  current = &w;
  wanted_until(&w.unwanted);
  try {
    w.run();
  } catch (...) {
    w.error = std::current_exception();
  }
  w.run = nullptr;
  {
    const std::lock_guard one(w.mutex);
    w.done = true;
  }
  w.changed.notify_all();
  --working;
  return nullptr;
}

bool start_thread(const std::shared_ptr<Work>& w) {
  constexpr size_t kStack = size_t{512} << 20;  // of address space: the compiler recurses over what it reads
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  auto held = std::make_unique<std::shared_ptr<Work>>(w);
  pthread_t thread;
  ++working;
  const bool started = pthread_create(&thread, &attributes, start, held.get()) == 0;
  pthread_attr_destroy(&attributes);
  if (started)
    static_cast<void>(held.release());
  else
    --working;
  return started;
}

// ---- Forks

std::atomic<int> forked = 0;

// Writers first, or a fork would wait for ever beside threads that run one model after another.
pthread_rwlock_t* new_lock() {
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  auto* const lock = new pthread_rwlock_t;
  pthread_rwlock_init(lock, &attributes);
  pthread_rwlockattr_destroy(&attributes);
  return lock;
}
pthread_rwlock_t* runs = new_lock();  // outlives the interpreter's end

void before_fork() {
  const OthersRun others;
  pthread_rwlock_wrlock(runs);
}
void after_fork() {
  pthread_rwlock_unlock(runs);
}
void after_fork_in_child() {
  runs = new_lock();  // the old one is held by a thread of the parent
  working = 0;
  ++forked;
}

}  // namespace

OthersRun::OthersRun() : state_(PyEval_SaveThread()) {}

OthersRun::~OthersRun() {
  ++coming_back;
  if (ending && std::this_thread::get_id() != ends) {
    --coming_back;
    for (;;) pause();
  }
  PyEval_RestoreThread(state_);
  --coming_back;
}

void do_work(std::function<void()> run) {
  const auto w = std::make_shared<Work>();
  w->run = std::move(run);
  if (!start_thread(w)) throw UserError("can't start a thread to work on");
  for (bool done = false; !done;) {
    {
      const OthersRun others;
      std::unique_lock held(w->mutex);
      done = w->changed.wait_for(held, 50ms, [&] { return w->done; });
    }
    if (PyErr_CheckSignals() != 0) {
      w->unwanted = true;
      throw nb::python_error();
    }
  }
  for (const std::string& message : w->warnings) warn(message);
  if (w->error) std::rethrow_exception(w->error);
}

void warn(const std::string& message) {
  if (current) {  // Python's warnings name the line of the caller, whose thread this isn't
    current->warnings.push_back(message);
    return;
  }
  const nb::gil_scoped_acquire held;
  nb::module_::import_("warnings").attr("warn")(message, nb::arg("stacklevel") = 3);
}

Run::Run() {
  pthread_rwlock_rdlock(runs);
}
Run::~Run() {
  pthread_rwlock_unlock(runs);
}
int forks() {
  return forked;
}

// The command line, whose words begin with the program's name; gives the exit code.
int run_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const OthersRun others;
  return cli::run_program(static_cast<int>(words.size()), argv.data());
}

void add_threads(nb::module_& m) {
  m.def("_end", &end);
  m.def("_before_fork", &before_fork);
  m.def("_after_fork", &after_fork);
  m.def("_after_fork_in_child", &after_fork_in_child);
  m.def("_run_program", &run_program);
}

}  // namespace nestor::python
