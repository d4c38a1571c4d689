#pragma once

#include "nestor/ir.h"

namespace nestor::testing {

struct RandomKinds {
  bool vectors = true;  // else every expression is scalar
  bool halves = true;   // f16 and bf16
};

// 8 expressions of one lane count over inputs of 160 elements, one of each type; the same function for the
// same seed.
PrimFunc random_function(uint64_t seed, RandomKinds kinds = {});

}  // namespace nestor::testing
