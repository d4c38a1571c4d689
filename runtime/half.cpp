#include "nestor/half.h"

#include <bit>
#include <cmath>

namespace nestor {

namespace {

// Rounds a double to a binary format with `mantissa` stored bits and `exponent` exponent bits, by hand, so
// that the double is rounded once and not first to float.
uint16_t narrow(double value, int mantissa, int exponent) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t inf = static_cast<uint16_t>(((1 << exponent) - 1) << mantissa);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | inf | (1 << (mantissa - 1)));
  const int bias = (1 << (exponent - 1)) - 1;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int e = 0;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | inf);
  std::frexp(magnitude, &e);
  const int unbiased =
      std::max(e - 1, 1 - bias);  // exponent of the result's unit bit, subnormals share 1 - bias
  const double scaled = std::ldexp(magnitude, mantissa - unbiased);
  const auto rounded = static_cast<uint32_t>(std::nearbyint(scaled));  // at most 2^(mantissa+1)
  // Adding lets a carry out of the mantissa step into the exponent.
  const uint32_t base = static_cast<uint32_t>(unbiased + bias - 1) << mantissa;
  const uint32_t bits = base + rounded;
  return static_cast<uint16_t>(sign | (bits >= inf ? inf : bits));
}

double widen(uint16_t bits, int mantissa, int exponent) {
  const int bias = (1 << (exponent - 1)) - 1;
  const int e = (bits >> mantissa) & ((1 << exponent) - 1);
  const int m = bits & ((1 << mantissa) - 1);
  double value;
  if (e == (1 << exponent) - 1)
    value = m ? std::nan("") : INFINITY;
  else if (e == 0)
    value = std::ldexp(m, 1 - bias - mantissa);
  else
    value = std::ldexp(m + (1 << mantissa), e - bias - mantissa);
  return bits & 0x8000 ? -value : value;
}

}  // namespace

uint16_t to_f16(double value) {
  return narrow(value, 10, 5);
}
double from_f16(uint16_t bits) {
  return widen(bits, 10, 5);
}
uint16_t to_bf16(double value) {
  return narrow(value, 7, 8);
}
double from_bf16(uint16_t bits) {
  return widen(bits, 7, 8);
}

double round_to(DType type, double value) {
  switch (type) {
    case DType::f32:
      return static_cast<float>(value);
    case DType::f16:
      return from_f16(to_f16(value));
    case DType::bf16:
      return from_bf16(to_bf16(value));
    default:
      return value;
  }
}

}  // namespace nestor
