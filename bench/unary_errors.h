// The error of unary f32 operators, as they are compiled, against f64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestor/target.h"

namespace nestor {

struct UnaryOperator {
  const char* name;
  const char* attrs;          // "; alpha=1.5", or nothing
  double ulps;                // the bound: units in the last place of the exact result
  double (*exact)(double x);  // of x, an f32
  double (*scale)(double x);  // where it isn't null, units are those of this: a term of a sum that cancels
};
const std::vector<UnaryOperator>& unary_operators();

struct WorstError {
  double ulps = 0, exact = 0;
  float x = 0, got = 0;
  int64_t inputs = 0;
};
// Over every `stride`-th of the 2^32 floats by their bits. A result of another class than the exact one,
// rounded to f32, counts as an error of 1e30. Code for a target that doesn't run here is interpreted.
WorstError worst_error(const UnaryOperator& op, const Target& target, uint64_t stride);

}  // namespace nestor
