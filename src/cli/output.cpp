#include "src/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace nestor::cli {

void watch_output() {
  std::signal(SIGPIPE, SIG_IGN);
}

namespace {

bool is_closed_pipe() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace

int finish_output(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const int why = errno;
  if (why == EPIPE || is_closed_pipe()) end_by_closed_pipe();
  std::fprintf(stderr, "error: can't write to standard output: %s\n", std::strerror(why ? why : EIO));
  return 1;
}

void end_by_closed_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

}  // namespace nestor::cli
