// Weights of few bits stay packed where products and Gathers read them.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// `count` numbers from `least` on, `range` different ones, in no order that rows or columns have.
std::string numbers(int64_t count, int64_t least, int64_t range, double scale = 1) {
  std::string out;
  for (int64_t i = 0; i < count; ++i)
    out += fmt::format("{}{}", i ? "," : "", scale * static_cast<double>(least + i * i % 101 % range));
  return out;
}

struct Quantized {
  std::string type, q, scale, zero, attrs;  // shapes of the tensors; zero may be ""
  int64_t least, range;
};

Graph model(const Quantized& of, const std::string& x, const std::string& nodes,
            const std::string& more = "") {
  const auto size = [](const std::string& shape) {
    int64_t n = 1;
    for (size_t at = 0; at < shape.size(); at = shape.find(',', at) + 1) {
      n *= std::stoll(shape.substr(at));
      if (shape.find(',', at) == std::string::npos) break;
    }
    return n;
  };
  const auto tensor = [&](const char* name, const std::string& type, const std::string& shape,
                          const std::string& data) {
    return fmt::format(R"("{}": {{"dtype": "{}", "shape": [{}], "data": [{}]}})", name, type, shape, data);
  };
  std::string weights = tensor("q", of.type, of.q, numbers(size(of.q), of.least, of.range)) + "," +
                        tensor("s", "f32", of.scale, numbers(size(of.scale), 1, 7, 0.125));
  if (!of.zero.empty()) weights += "," + tensor("z", of.type, of.zero, numbers(size(of.zero), 0, 3));
  return graph_of(fmt::format(
      R"({{"opset": 21, "inputs": [{}], "weights": {{{}{}}}, "outputs": ["y"], "nodes": [
          {{"op": "DequantizeLinear", "inputs": ["q", "s"{}], "outputs": ["w"], "attrs": {{{}}}}}, {}]}})",
      x, weights, more, of.zero.empty() ? "" : R"(, "z")", of.attrs, nodes));
}

const std::string kX = R"({"name": "x", "dtype": "f32", "shape": [3, 64]})";
const std::string kMatMul = R"({"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]})";
const std::string kTransposed = R"({"op": "Transpose", "inputs": ["w"], "outputs": ["t"]},
                                   {"op": "MatMul", "inputs": ["x", "t"], "outputs": ["y"]})";

// The bytes of the packed weights, after the pass.
int64_t packed(Graph g) {
  check_unchanged(g, [](Graph& h) { pack_weights(h, evaluate_by_interpreter); });
  for (const Node& n : g.nodes) {
    if (n.op != "MatMulPacked" && n.op != "Unpack") continue;
    for (const Value& v : g.values)
      if (v.constant.defined() && v.name.ends_with(".packed")) return v.constant.size();
  }
  return 0;
}

}  // namespace

TEST_CASE("Products read packed weights") {
  // A scale for each column, for all, for blocks of a column.
  CHECK(packed(model({"i8", "64,80", "80", "", "", -8, 16}, kX, kMatMul)) == 64 * 80 / 2);
  CHECK(packed(model({"u8", "64,80", "80", "80", "", 0, 16}, kX, kMatMul)) == 64 * 80 / 2);
  CHECK(packed(model({"u8", "64,80", "", "", "", 0, 16}, kX, kMatMul)) == 64 * 80 / 2);
  CHECK(packed(model({"i8", "64,80", "4,80", "4,80", R"("axis": 0, "block_size": 16)", -8, 16}, kX,
                     kMatMul)) == 64 * 80 / 2);
  CHECK(packed(model({"u8", "80,64", "80,4", "80,4", R"("axis": 1, "block_size": 16)", 0, 16}, kX,
                     kTransposed)) == 64 * 80 / 2);
  // The last block of 48 is shorter: blocks of 16.
  CHECK(packed(model({"i8", "64,80", "2,80", "2,80", R"("axis": 0, "block_size": 48)", -8, 16}, kX,
                     kMatMul)) == 64 * 80 / 2);
  // 2 bits.
  CHECK(packed(model({"i8", "64,80", "4,80", "", R"("axis": 0, "block_size": 16)", -2, 4}, kX, kMatMul)) ==
        64 * 80 / 4);
}

TEST_CASE("A Gemm's factors stay beside packed weights") {
  const std::string c = R"(, "c": {"dtype": "f32", "shape": [1], "data": [2.5]})";
  CHECK(packed(model({"u8", "80,64", "80", "", R"("axis": 0)", 0, 16}, kX,
                     R"({"op": "Gemm", "inputs": ["x", "w", "c"], "outputs": ["y"],
                         "attrs": {"transB": 1, "alpha": 0.5, "beta": 3.0}})",
                     c)) == 64 * 80 / 2);
}

TEST_CASE("A Gather picks packed rows") {
  const std::string i = R"({"name": "i", "dtype": "i64", "shape": [2, 3]})";
  const std::string gather = R"({"op": "Gather", "inputs": ["w", "i"], "outputs": ["y"]})";
  CHECK(packed(model({"i8", "64,80", "64,5", "64,5", R"("axis": 1, "block_size": 16)", -8, 16}, i, gather)) ==
        64 * 80 / 2);
  CHECK(packed(model({"i8", "64,80", "64", "", R"("axis": 0)", -8, 16}, i, gather)) == 64 * 80 / 2);
  CHECK(packed(model({"u8", "64,80", "", "", "", 0, 16}, i, gather)) == 64 * 80 / 2);
}

TEST_CASE("Weights stay as they are where they have more bits, no whole bytes, or scales within a block") {
  CHECK(packed(model({"i8", "64,80", "80", "", "", -8, 17}, kX, kMatMul)) == 0);
  CHECK(packed(model({"i8", "64,80", "64", "", R"("axis": 0)", -8, 16}, kX, kMatMul)) == 0);
  const std::string odd = R"({"name": "x", "dtype": "f32", "shape": [3, 65]})";
  CHECK(packed(model({"i8", "65,80", "80", "", "", -8, 16}, odd, kMatMul)) == 0);
}
