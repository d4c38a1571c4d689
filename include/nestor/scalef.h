// x times 2 to the floor of n, rounded once: the last step of exp, and one instruction of AVX-512
// (vscalefps), which defines the special cases. If n is infinite, the result is 0 or infinity even if x is
// NaN, so that exp(inf) needs no comparison.
#pragma once

#include <algorithm>
#include <cmath>

namespace nestor {

inline float scalef(float x, float n) {
  if (std::isnan(n)) return n;
  if (std::isinf(n)) {
    const float power = n > 0 ? n : 0.0f;
    return std::isnan(x) ? power : x * power;
  }
  // 400 is beyond the way from the smallest denormal to infinity.
  return std::scalbn(x, static_cast<int>(std::floor(std::clamp(n, -400.0f, 400.0f))));
}

}  // namespace nestor
