// Ctrl-C and SIGTERM ask for an orderly end, with a summary, again if there is another; the third one ends the
// process at once.
#pragma once

namespace nestor::cli {

void watch_interrupt();
bool interrupted();

}  // namespace nestor::cli
