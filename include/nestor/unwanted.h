// Ends work whose result isn't wanted any more, such as a compilation after Ctrl-C: long computations call
// check_wanted() from time to time.
#pragma once

#include <atomic>
#include <exception>

namespace nestor {

// Not an Error: nobody is to be told.
class Unwanted : public std::exception {
 public:
  const char* what() const noexcept override { return "nobody waits for this any more"; }
};

namespace detail {
inline thread_local const std::atomic<bool>* unwanted = nullptr;
}

// This thread's work is wanted until `flag` is set; null: for good.
inline void wanted_until(const std::atomic<bool>* flag) {
  detail::unwanted = flag;
}
inline bool is_wanted() {
  return !detail::unwanted || !detail::unwanted->load(std::memory_order_relaxed);
}
inline void check_wanted() {
  if (!is_wanted()) throw Unwanted();
}

}  // namespace nestor
