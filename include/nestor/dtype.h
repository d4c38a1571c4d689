// Element types of tensors and expressions. Header-only, so that the runtime can share it with the compiler.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nestor {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

inline constexpr std::array<std::string_view, 10> kDTypeNames = {"f64", "f32", "f16", "bf16", "i64",
                                                                 "i32", "i16", "i8",  "u8",   "bool"};
inline constexpr std::array<int, 10> kDTypeBytes = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};

constexpr std::string_view name_of(DType t) {
  return kDTypeNames[static_cast<size_t>(t)];
}
constexpr int bytes_of(DType t) {
  return kDTypeBytes[static_cast<size_t>(t)];
}
constexpr bool is_float(DType t) {
  return t <= DType::bf16;
}
constexpr bool is_int(DType t) {
  return t >= DType::i64 && t <= DType::u8;
}
constexpr bool is_bool(DType t) {
  return t == DType::boolean;
}

constexpr std::optional<DType> parse_dtype(std::string_view s) {
  for (size_t i = 0; i < kDTypeNames.size(); ++i)
    if (kDTypeNames[i] == s) return static_cast<DType>(i);
  return std::nullopt;
}

// The type of an expression: `lanes` > 1 only in lowered functions, after the pass `vectorize`.
struct Type {
  DType dtype = DType::i64;
  int lanes = 1;
  bool operator==(const Type&) const = default;
  bool is_vector() const { return lanes > 1; }
  Type with_lanes(int n) const { return {dtype, n}; }
};

}  // namespace nestor
