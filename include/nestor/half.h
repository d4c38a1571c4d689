// Conversions between double and the 16-bit float formats, and rounding a double to an element type.
#pragma once

#include <cstdint>

#include "nestor/dtype.h"

namespace nestor {

uint16_t to_f16(double value);  // round to nearest even, overflow to infinity, NaN kept quiet
double from_f16(uint16_t bits);
uint16_t to_bf16(double value);
double from_bf16(uint16_t bits);

// `value` rounded once to a float type; the value itself for integer types.
double round_to(DType type, double value);

}  // namespace nestor
