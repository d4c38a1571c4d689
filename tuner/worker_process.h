// A worker process: started, written to, read and ended without blocking.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nestor {

struct WorkerProcess {
  std::vector<std::string> argv;
  pid_t pid = -1;
  int in = -1, out = -1, err = -1;  // our ends: to its stdin, from its stdout and stderr
  std::string to_write;             // what it hasn't read yet
  std::string answer;               // what there is of it
  std::string said;                 // the end of what it wrote to stderr

  void start();
  // Ends it, with what it started, and says how it ended, with the last line of its stderr.
  std::string stop();
  // Writes what the worker reads now; false where it never will.
  bool write_some();
  // Adds to `answer` what has come; false where no more will.
  bool read_some();
  void hear();  // what it writes to stderr, of which only the end is kept
  std::string name() const;
};

}  // namespace nestor
