// What this machine can do at most, measured: the yardsticks of every report.
#pragma once

#include <cstdint>

#include "nestor/target.h"

namespace nestor {

// f32 multiply-adds (2 operations each) of independent chains in the target's widest vectors, on one thread:
// the best slice of about `ms` milliseconds, in 10^9 operations a second. Where the target has no fma a
// product and a sum are counted as one.
double measure_fma_peak_gflops(double ms = 50, const Target& target = host_target());

// Bytes read plus bytes written by copying `bytes` of memory, the best of several runs, in 10^9 bytes a
// second.
double measure_copy_gbs(int64_t bytes);

}  // namespace nestor
