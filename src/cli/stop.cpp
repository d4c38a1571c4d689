#include "src/cli/stop.h"

#include <csignal>

namespace nestor::cli {

namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) {
  g_interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void watch_interrupt() {
  std::signal(SIGINT, on_interrupt);
}
bool interrupted() {
  return g_interrupted != 0;
}

}  // namespace nestor::cli
