// Small functions of every structure that schedules meet, at random sizes: half of them ragged (primes and
// such, which no factor divides), half even.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

struct FuzzFunction {
  const char* name;
  double tolerance;  // 0: exact on integers whatever the order of sums
  PrimFunc func;
};

int fuzz_function_count();
// The i-th kind of function; `ragged` chooses the pool of sizes.
FuzzFunction fuzz_function(int i, bool ragged, std::mt19937_64& rng);

}  // namespace nestor
