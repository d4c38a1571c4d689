// What this machine can do at most, measured: the yardsticks of every report.
#pragma once

#include <cstdint>

namespace nestor {

// f32 multiply-adds (2 operations each) of independent chains in the widest vectors, on one thread: the best
// slice of about `ms` milliseconds, in 10^9 operations a second.
double measure_fma_peak_gflops(double ms = 50);

// Bytes read plus bytes written by copying `bytes` of memory, the best of several runs, in 10^9 bytes a
// second.
double measure_copy_gbs(int64_t bytes);

}  // namespace nestor
