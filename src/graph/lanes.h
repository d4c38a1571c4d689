// What choices among algorithms and layouts count with: vectors, and how full they are.
#pragma once

#include <cstdint>

#include "nestor/ir.h"

namespace nestor {

constexpr double kFmasPerCycle = 2;  // of vectors, of one core

// Of the lanes of n elements in vectors.
inline double filled(int64_t n, int64_t lanes) {
  return static_cast<double>(n) / static_cast<double>(ceil_div(n, lanes) * lanes);
}

}  // namespace nestor
