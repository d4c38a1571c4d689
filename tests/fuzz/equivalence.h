// Do two functions compute the same? By the interpreter, on inputs that make sums exact, so that reassociated
// reductions must agree bit for bit too.
#pragma once

#include <string>
#include <vector>

#include "nestor/interpret.h"

namespace nestor {

// Arguments with integers in [-4, 4] in float tensors and in [0, 3] in integer ones. With `rounds` (the
// function has exp, division ...) only closeness can be asked.
std::vector<Tensor> exact_args(const PrimFunc& f, uint64_t seed);

struct Comparison {
  bool same = true;
  std::string why;  // the first difference, or the interpreter's error
};
// Runs `after` with race checks, unordered loops in random order. expected: outs of the original on the same
// seed.
Comparison compare_runs(const PrimFunc& after, const std::vector<Tensor>& expected, uint64_t seed,
                        double tolerance = 0);
std::vector<Tensor> run_original(const PrimFunc& f, uint64_t seed);

}  // namespace nestor
