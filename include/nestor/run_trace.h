// What ran when, on which thread: the runs of an executor, the calls in them, and the pieces of their
// parallel loops.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "nestor/runtime.h"

namespace nestor {

class RunTrace {
 public:
  // A run has call -1; a piece has the iterations [first, end) of a loop of `call`, other spans have none.
  struct Span {
    int thread = 0;
    int call = -1;
    int64_t begin_ns = 0, end_ns = 0;
    int64_t first = 0, end = 0;
  };
  explicit RunTrace(int threads);
  const std::vector<Span>& of_thread(int thread) const { return spans_[static_cast<size_t>(thread)]; }
  int threads() const { return static_cast<int>(spans_.size()); }

  // For the executor: the caller's thread is 0.
  void begin(int call);
  void end();
  // For its pool; `trace` is one of these.
  static void watch(void* trace, int32_t worker, int64_t begin, int64_t end, int32_t done);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t now() const;
  Clock::time_point start_ = Clock::now();
  std::vector<std::vector<Span>> spans_;  // by thread; each is written by its own
  std::vector<size_t> open_;              // the caller's, innermost last
  int call_ = -1;                         // in which loops run
};

}  // namespace nestor
