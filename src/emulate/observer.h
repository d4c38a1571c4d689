// Who is told what the threads of a launch do, one after the other, by a library that is traced
// (emulation_trace.h): counters and the race check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nestor {

constexpr size_t kWarpSize = 32;

struct MemoryAccess {
  enum : int { static_shared = -1, dynamic_shared = -2 };
  int buffer = 0;       // the number of an argument, or one of the above
  uint64_t offset = 0;  // bytes from its start
  uint64_t address = 0;
  unsigned bytes = 0;
  bool write = false;
  const void* site = nullptr;  // where in the library's code

  bool shared() const { return buffer < 0; }
};

class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void block_starts(size_t block, size_t threads) = 0;
  virtual void access(size_t thread, const MemoryAccess& a) = 0;
  virtual void lanes_meet(size_t first_thread,
                          unsigned mask) = 0;         // of the warp that begins with that thread
  virtual void block_meets() = 0;                     // at a barrier, and at its end
  virtual std::string problem() const { return ""; }  // the first that it found
};

}  // namespace nestor
