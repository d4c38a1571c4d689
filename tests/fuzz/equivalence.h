// Do two functions compute the same? By the interpreter, on inputs that make sums exact, so that reassociated
// reductions must agree bit for bit too.
#pragma once

#include <string>
#include <vector>

#include "nestor/interpret.h"

namespace nestor {

// The function with numbers for its symbolic dimensions; itself where it has none.
PrimFunc at_sizes(const PrimFunc& f, const std::vector<int64_t>& dims);

// Arguments with integers in [-4, 4] in float tensors and in [0, 3] in integer ones, which may be indices.
std::vector<Tensor> exact_args(const PrimFunc& f, uint64_t seed);
// The same with real numbers in the float tensors: every rounding shows.
std::vector<Tensor> real_args(const PrimFunc& f, uint64_t seed);

struct Agreement {
  bool same = true;
  std::string why;  // the first difference, or the interpreter's error
};
// Runs `after` with race checks, unordered loops in random order. expected: outs of the original on the same
// seed.
Agreement compare_runs(const PrimFunc& after, const std::vector<Tensor>& expected, uint64_t seed,
                       double tolerance = 0);
// Outs of both; `tolerance` is relative above 1, 0: equal.
Agreement compare_outs(const PrimFunc& f, const std::vector<Tensor>& expected, const std::vector<Tensor>& got,
                       double tolerance);
std::vector<Tensor> run_original(const PrimFunc& f, uint64_t seed);

}  // namespace nestor
