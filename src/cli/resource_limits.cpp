// The kernel counts: memory that is allocated and private (RLIMIT_DATA), and time (ITIMER_REAL). So the
// limits hold for libraries, too, and no loop has to ask. What is over the limit ends the process where it
// stands: neither a signal handler nor a failed allocation inside LLVM could throw.
#include "src/cli/resource_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "nestor/error.h"
#include "nestor/out_of_memory.h"

namespace nestor::cli {

namespace {

std::string g_memory_message, g_time_message;  // made beforehand: where they are needed, nothing may allocate

[[noreturn]] void stop(const std::string& message) {
  static_cast<void>(!write(STDERR_FILENO, message.data(), message.size()));
  _exit(1);
}

void out_of_memory() {
  stop(g_memory_message);
}
void out_of_time(int) {
  stop(g_time_message);
}

// Of code and constants, which lie in mapped files and count as memory, but not for RLIMIT_DATA.
uint64_t mapped_bytes() {
  uint64_t size = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> size >> resident >> shared;
  return shared * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void limit_memory(uint64_t bytes) {
  g_memory_message =
      fmt::format("error: not enough memory: --max-memory allows {} MiB\n", bytes / (uint64_t{1} << 20));
  const uint64_t mapped = mapped_bytes();
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = std::min<rlim_t>(bytes > mapped ? bytes - mapped : 0, limit.rlim_max);
  if (setrlimit(RLIMIT_DATA, &limit) != 0) throw UserError("--max-memory can't be set on this system");
  on_out_of_memory(out_of_memory);
}

void limit_time(double seconds) {
  g_time_message = fmt::format("error: stopped after {} s, as --time-limit says\n", seconds);
  std::signal(SIGALRM, out_of_time);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  if (setitimer(ITIMER_REAL, &timer, nullptr) != 0)
    throw UserError("--time-limit can't be set on this system");
}

}  // namespace

void apply(const Limits& limits) {
  if (limits.memory > 0) limit_memory(limits.memory);
  if (limits.seconds > 0) limit_time(limits.seconds);
}

}  // namespace nestor::cli
