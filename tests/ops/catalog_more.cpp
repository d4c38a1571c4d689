// The catalog's bits, inverse functions and norms of windows.
#include "tests/ops/catalog.h"

namespace nestor {

void catalog_more(std::vector<CatalogEntry>& all) {
  for (const int64_t bits : {2, 4, 8})
    all.push_back({"MatMulPacked of " + std::to_string(bits) + " bits", OpCase("MatMulPacked", 1, "nestor")
                                                                            .input({3, 32})
                                                                            .input(DType::u8, {4 * bits, 20})
                                                                            .input({4, 20})
                                                                            .input(DType::u8, {4, 20})
                                                                            .attr("bits", bits)});
  all.push_back({"MatMulPacked of f16", OpCase("MatMulPacked", 1, "nestor")
                                            .input(DType::f16, {2, 3, 32})
                                            .input(DType::u8, {16, 20})
                                            .input(DType::f16, {1, 20})
                                            .attr("zero", int64_t{8})});
  for (const int64_t code : {17, 20, 23, 24}) {
    const std::string of = " of " + std::to_string(code);
    all.push_back({"ToFormat" + of, OpCase("ToFormat", 1, "nestor").input({3, 35}).attr("format", code)});
    all.push_back({"FromFormat" + of,
                   OpCase("FromFormat", 1, "nestor").input(DType::u8, {2, 19}).attr("format", code)});
  }
  all.push_back({"Unpack", OpCase("Unpack", 1, "nestor").input(DType::u8, {3, 5})});
  all.push_back({"Sizes", OpCase("Sizes", 1, "nestor").ints({5, 7, -1, 9})});
  all.push_back({"Size", OpCase("Size").input({2, 3})});
  using Ints = std::vector<int64_t>;
  for (const char* op : {"Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"})
    all.push_back({op, OpCase(op).input({2, 3, 5})});
  all.push_back({"Asin of f64", OpCase("Asin").input(DType::f64, {7})});
  all.push_back({"Shrink", OpCase("Shrink").input({2, 3, 5}).attr("lambd", 0.25).attr("bias", 0.125)});
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    all.push_back({op, OpCase(op).input(DType::i32, {2, 3}).input(DType::i32, {3})});
  all.push_back({"BitwiseNot", OpCase("BitwiseNot").input(DType::u8, {7})});
  for (const char* direction : {"LEFT", "RIGHT"})
    all.push_back({std::string("BitShift ") + direction, OpCase("BitShift")
                                                             .input(DType::i8, {4, 3})
                                                             .input(DType::i8, {3})
                                                             .attr("direction", std::string(direction))});
  all.push_back({"BitCast", OpCase("BitCast", 26).input({5}).attr("to", int64_t{6})});
  all.push_back({"BitCast of bool", OpCase("BitCast", 26).input(DType::boolean, {5}).attr("to", int64_t{2})});
  all.push_back({"Mod of floats", OpCase("Mod").input({4}).input({4}).attr("fmod", int64_t{1})});
  all.push_back({"Mod of floats, floored", OpCase("Mod", 28).input(DType::f64, {4}).input(DType::f64, {4})});
  all.push_back({"LpPool", OpCase("LpPool")
                               .input({1, 2, 6, 5})
                               .attr("kernel_shape", Ints{3, 2})
                               .attr("pads", Ints{1, 0, 1, 1})
                               .attr("p", int64_t{3})});
  all.push_back({"GlobalLpPool", OpCase("GlobalLpPool").input({2, 3, 4, 5})});
  all.push_back({"MaxPoolIndices", OpCase("MaxPoolIndices", 1, "nestor")
                                       .input({1, 2, 6, 5})
                                       .input({1, 2, 3, 3})
                                       .attr("kernel_shape", Ints{2, 2})
                                       .attr("strides", Ints{2, 2})
                                       .attr("pads", Ints{0, 0, 0, 1})});
  all.push_back({"FoundSize", OpCase("FoundSize", 1, "nestor").input(DType::i64, {})});
  all.push_back({"KeptBoxes", OpCase("KeptBoxes", 1, "nestor")
                                  .input({1, 5, 4})
                                  .input({1, 2, 5})
                                  .input(DType::i64, {})
                                  .input(DType::f32, {})
                                  .input(DType::f32, {})
                                  .attr("most", int64_t{3})
                                  .outputs(2)});
  all.push_back({"Order", OpCase("Order", 1, "nestor").input(DType::i64, {2, 7})});
}

}  // namespace nestor
