// What a GPU needs to be busy, as the families of schedules for one see it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nestor::library {

constexpr int kMultiprocessors = 108;                      // of an A100
constexpr int64_t kEnoughThreads = 64 * kMultiprocessors;  // two warps for each; fewer leave some idle
constexpr int64_t kMostMapThreads = 256, kFewestThreads = 32;

// Threads of a block, few where the work is small, so that all multiprocessors get some.
inline int64_t threads_for(int64_t size) {
  int64_t threads = kMostMapThreads;
  while (threads > kFewestThreads && size < threads * kMultiprocessors) threads /= 2;
  return threads;
}

inline int64_t power_of_two_from(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

}  // namespace nestor::library
