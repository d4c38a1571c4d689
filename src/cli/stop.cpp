#include "src/cli/stop.h"

#include <csignal>

namespace nestor::cli {

namespace {

volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_before {};  // what the second one does

void on_interrupt(int) {
  g_interrupted = 1;
  sigaction(SIGINT, &g_before, nullptr);
}

}  // namespace

void watch_interrupt() {
  struct sigaction once {};
  once.sa_handler = on_interrupt;
  once.sa_flags = SA_RESTART;
  sigaction(SIGINT, &once, &g_before);
}
bool interrupted() {
  return g_interrupted != 0;
}

}  // namespace nestor::cli
