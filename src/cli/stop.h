// Ctrl-C asks for an orderly end: the first one sets a flag, the second one ends the process at once.
#pragma once

namespace nestor::cli {

void watch_interrupt();
bool interrupted();

}  // namespace nestor::cli
