// Work that whoever asked for it no longer waits for, as a compilation after Ctrl-C, ends itself: what takes
// long calls check_wanted() on its way.
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
inline void check_wanted() {
  if (detail::unwanted && detail::unwanted->load(std::memory_order_relaxed)) throw Unwanted();
}

}  // namespace nestor
