// Numbers of 8 bits and less. No element type is one of them: a float is held as its bits, in a byte, and an
// integer as the number that it is, in a byte. ONNX's operators on them are spelled out (spell_out_narrow)
// with two of our own, which make them of f32 or i32 and back.
#pragma once

#include <array>
#include <cstdint>

#include "nestor/dtype.h"

namespace nestor::ops {

struct Format {
  int code;  // ONNX's number
  const char* name;
  DType stored;
  int bits;
  int exponent = 0, mantissa = 0, bias = 0;  // bits; exponent 0: an integer
  int greatest = 0;                          // the code of the greatest finite number
  int infinity = -1, nan = -1;               // codes; -1: there is none
  bool one_zero = false;                     // no -0: its code is NaN's
};

inline constexpr std::array<Format, 10> kFormats = {
    {{17, "float8e4m3fn", DType::u8, 8, 4, 3, 7, 0x7e, -1, 0x7f},
     {18, "float8e4m3fnuz", DType::u8, 8, 4, 3, 8, 0x7f, -1, 0x80, true},
     {19, "float8e5m2", DType::u8, 8, 5, 2, 15, 0x7b, 0x7c, 0x7e},
     {20, "float8e5m2fnuz", DType::u8, 8, 5, 2, 16, 0x7f, -1, 0x80, true},
     {21, "uint4", DType::u8, 4},
     {22, "int4", DType::i8, 4},
     {23, "float4e2m1", DType::u8, 4, 2, 1, 1, 0x7},
     {24, "float8e8m0", DType::u8, 8, 8, 0, 127, 0xfe, -1, 0xff},  // no sign, no 0
     {25, "uint2", DType::u8, 2},
     {26, "int2", DType::i8, 2}}};

constexpr const Format* format_of(int64_t code) {
  for (const Format& f : kFormats)
    if (f.code == code) return &f;
  return nullptr;
}

}  // namespace nestor::ops
