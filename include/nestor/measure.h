// The measured limits of this machine, such as the FMA peak and the bandwidth of a copy. Reports compare with
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "nestor/target.h"

namespace nestor {

// f32 multiply-adds of independent chains in the target's widest vectors, all in registers: some 20 to 50
// microseconds of them a call. Where the target has no fma a product and a sum are counted as one.
class FmaLoop {
 public:
  explicit FmaLoop(const Target& target = host_target());
  ~FmaLoop();
  void run() const;      // several threads may at once
  double flops() const;  // of a call, 2 for a multiply-add

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The best slice of about `ms` milliseconds of that loop on one thread, in 10^9 operations a second.
double measure_fma_peak_gflops(double ms = 50, const Target& target = host_target());

// Bytes read plus bytes written by copying `bytes` of memory, the best of several runs, in 10^9 bytes a
// second.
double measure_copy_gbs(int64_t bytes);

}  // namespace nestor
