// A signal handler may not take locks or allocate memory, so it reads a table of pointers to names. Names are
// never freed, because another thread's handler may be reading one.
#include "runtime/temporaries.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "nestor/files.h"

namespace nestor {

namespace {

constexpr size_t kMost = 256;
std::array<std::atomic<const char*>, kMost> g_names;
std::atomic<pid_t> g_owner{0};  // a child has the table, but not the files
std::atomic<int> g_holds{0};
std::atomic<int> g_waiting{0};  // a signal

const char* keep(const std::string& name) {
  static std::mutex mutex;
  static auto& names = *new std::deque<std::string>;
  const std::lock_guard lock(mutex);
  return names.emplace_back(name).c_str();
}

bool enlist(const std::string& name) {
  const char* const kept = keep(name);
  g_owner = getpid();
  for (std::atomic<const char*>& slot : g_names) {
    const char* empty = nullptr;
    if (slot.compare_exchange_strong(empty, kept)) return true;
  }
  return false;
}

void strike(const std::string& name) {
  for (std::atomic<const char*>& slot : g_names)
    if (const char* const here = slot; here && name == here) slot = nullptr;
}

void on_signal(int signal) {
  if (g_holds > 0) {
    g_waiting = signal;
    return;
  }
  remove_pending_files();
  std::signal(signal, SIG_DFL);
  raise(signal);  // once this returns
}

}  // namespace

namespace temporaries {

Hold::Hold() {
  ++g_holds;
}
Hold::~Hold() {
  if (--g_holds > 0) return;
  if (const int signal = g_waiting.exchange(0)) raise(signal);
}

int create(std::string& pattern) {
  const Hold hold;
  const int file = mkostemp(pattern.data(), O_CLOEXEC);
  if (file < 0 || enlist(pattern)) return file;
  close(file);
  unlink(pattern.c_str());
  errno = EMFILE;
  return -1;
}

int rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return errno;
  strike(from);
  return 0;
}

void remove(const std::string& path) {
  unlink(path.c_str());
  strike(path);
}

}  // namespace temporaries

void remove_pending_files_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_RESTART;
    sigaction(signal, &ours, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  std::atexit(remove_pending_files);
}

void remove_pending_files() {
  if (g_owner != getpid()) return;
  for (const std::atomic<const char*>& slot : g_names)
    if (const char* const name = slot) unlink(name);
}

}  // namespace nestor
