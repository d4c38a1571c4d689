// --max-memory and --time-limit: a command that would take more ends with a message and leaves no file.
#pragma once

#include <cstdint>

namespace nestor::cli {

struct Limits {
  uint64_t memory = 0;  // bytes, the program's own code included; 0: no limit
  double seconds = 0;   // of wall-clock time; 0: no limit
};

// Holds for the rest of the process. Processes that it starts inherit the limit of memory, each for itself.
void apply(const Limits& limits);

}  // namespace nestor::cli
