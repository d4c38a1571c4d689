// The kernel enforces the limits: of private allocated memory (RLIMIT_DATA) and of time (ITIMER_REAL). So
// they cover libraries too, and no loop has to check. A process over a limit ends at once: neither a signal
// handler nor a failed allocation inside LLVM could throw an exception.
#include "src/cli/resource_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <string>
#include <system_error>

#include "nestor/error.h"
#include "nestor/files.h"
#include "nestor/out_of_memory.h"

namespace nestor::cli {

namespace {

std::string g_memory_message, g_time_message;  // made beforehand: where they are needed, nothing may allocate

[[noreturn]] void stop(const std::string& message) {
  remove_pending_files();
  static_cast<void>(!write(STDERR_FILENO, message.data(), message.size()));
  _exit(1);
}

void out_of_memory() {
  stop(g_memory_message);
}
// Threads, and allocations that may not fail, end here.
[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr e = std::current_exception()) std::rethrow_exception(e);
  } catch (const std::bad_alloc&) {
    out_of_memory();
  } catch (const std::system_error&) {
    out_of_memory();
  } catch (...) {
  }
  std::abort();
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
  limit.rlim_cur =
      std::min<rlim_t>(bytes > mapped ? bytes - mapped : 1, limit.rlim_max);  // 0 is none on Linux
  if (setrlimit(RLIMIT_DATA, &limit) != 0) throw UserError("--max-memory can't be set on this system");
  on_out_of_memory(out_of_memory);
  std::set_terminate(on_terminate);
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
