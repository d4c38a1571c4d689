// Element types of tensors and expressions, in one table. Header-only, so that the runtime can share it with
// the compiler.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nestor {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

struct DTypeRow {
  std::string_view name;
  int bytes;
  std::string_view numpy;  // its name in NumPy
  std::string_view onnx;   // and in ONNX's TensorProto.DataType, with its number there
  int onnx_number;
};
inline constexpr std::array<DTypeRow, 13> kDTypes = {{{"f64", 8, "float64", "DOUBLE", 11},
                                                      {"f32", 4, "float32", "FLOAT", 1},
                                                      {"f16", 2, "float16", "FLOAT16", 10},
                                                      {"bf16", 2, "bfloat16", "BFLOAT16", 16},
                                                      {"i64", 8, "int64", "INT64", 7},
                                                      {"i32", 4, "int32", "INT32", 6},
                                                      {"i16", 2, "int16", "INT16", 5},
                                                      {"i8", 1, "int8", "INT8", 3},
                                                      {"u64", 8, "uint64", "UINT64", 13},
                                                      {"u32", 4, "uint32", "UINT32", 12},
                                                      {"u16", 2, "uint16", "UINT16", 4},
                                                      {"u8", 1, "uint8", "UINT8", 2},
                                                      {"bool", 1, "bool", "BOOL", 9}}};

constexpr const DTypeRow& row_of(DType t) {
  return kDTypes[static_cast<size_t>(t)];
}
constexpr std::string_view name_of(DType t) {
  return row_of(t).name;
}
constexpr int bytes_of(DType t) {
  return row_of(t).bytes;
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
// Integers without a sign, and bool.
constexpr bool is_unsigned(DType t) {
  return t >= DType::u64;
}
// The bounds of an integer type or bool, as 64-bit words: u64's greatest number is the word -1.
constexpr int64_t greatest_word(DType t) {
  if (is_bool(t)) return 1;
  const uint64_t ones = ~uint64_t{0} >> (64 - 8 * bytes_of(t));
  return static_cast<int64_t>(is_unsigned(t) ? ones : ones >> 1);
}
constexpr int64_t least_word(DType t) {
  return is_unsigned(t) ? 0 : -greatest_word(t) - 1;
}
// Whether a word is a number of the type.
constexpr bool fits_word(DType t, int64_t word) {
  return t == DType::u64 || (word >= least_word(t) && word <= greatest_word(t));
}

// The type whose entry in a column of the table is that.
template <class Entry>
constexpr std::optional<DType> dtype_by(Entry DTypeRow::*column, Entry entry) {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].*column == entry) return static_cast<DType>(i);
  return std::nullopt;
}
constexpr std::optional<DType> parse_dtype(std::string_view s) {
  return dtype_by(&DTypeRow::name, s);
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
