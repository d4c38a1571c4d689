#include "src/cli/stop.h"

#include <csignal>

namespace nestor::cli {

namespace {

constexpr int kAtOnce = 3;

volatile std::sig_atomic_t g_asked = 0;

void on_interrupt(int signal) {
  g_asked = g_asked + 1;
  if (g_asked < kAtOnce) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when this returns
}

// Unless whoever started us ignores it, as nohup and shells do for what runs in the background.
void watch(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction ask {};
  ask.sa_handler = on_interrupt;
  ask.sa_flags = SA_RESTART;
  sigaction(signal, &ask, nullptr);
}

}  // namespace

void watch_interrupt() {
  watch(SIGINT);
  watch(SIGTERM);
}
bool interrupted() {
  return g_asked != 0;
}

}  // namespace nestor::cli
