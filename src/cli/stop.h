// Ctrl-C and SIGTERM ask for an orderly end with a summary, and so does a second one. The third ends the
// process at once.
#pragma once

namespace nestor::cli {

void watch_interrupt();
bool interrupted();

}  // namespace nestor::cli
