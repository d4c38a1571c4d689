// Types of 8 bits and less: what reads and makes them is spelled out, and the rest moves bytes.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/error.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// x of that type by ONNX's number, in ONNX's JSON mapping; y, of `to`.
Graph model(int type, int to, const std::string& nodes, const std::string& more = "") {
  const auto value = [](const char* name, int of) {
    return fmt::format(
        R"({{"name": "{}", "type": {{"tensorType": {{"elemType": {}, "shape": {{"dim": [{{"dimValue": "2"}},
            {{"dimValue": "3"}}]}}}}}}}})",
        name, of);
  };
  return graph_of(fmt::format(
      R"({{"irVersion": "10", "opsetImport": [{{"version": "23"}}], "graph": {{"name": "g", "input": [{}],
          "output": [{}], "node": [{}]{}}}}})",
      value("x", type), value("y", to), nodes, more));
}

std::string node(const std::string& op, const std::string& in, const std::string& out,
                 const std::string& attributes = "") {
  return fmt::format(R"({{"opType": "{}", "input": [{}], "output": ["{}"], "attribute": [{}]}})", op, in, out,
                     attributes);
}

const std::string kToFloat = R"({"name": "to", "type": "INT", "i": "1"})";

std::vector<double> result(const Graph& g, const Values& in) {
  const Tensor y = run_unfused(g, in).at("y");
  std::vector<double> out;
  for (int64_t i = 0; i < y.size(); ++i) out.push_back(y.get(i));
  return out;
}

Tensor bytes(DType type, const std::vector<int64_t>& values) {
  Tensor t(type, {2, 3});
  for (int64_t i = 0; i < t.size(); ++i) t.set_int(i, values[static_cast<size_t>(i)]);
  return t;
}

}  // namespace

TEST_CASE("Operators that move elements move the bits of floats of 8 bits") {
  const Graph g = model(19, 1,
                        node("Transpose", R"("x")", "t") + "," + node("Cast", R"("t")", "u", kToFloat) + "," +
                            node("Transpose", R"("u")", "y"));
  CHECK(to_string(g.values[static_cast<size_t>(g.inputs[0])].type) == "u8[2,3]");
  CHECK(result(g, {{"x", bytes(DType::u8, {0x3c, 0x40, 0xc0, 0x01, 0x7b, 0})}}) ==
        std::vector<double>{1, 2, -2, 0x1p-16, 57344, 0});
}

TEST_CASE("Integers of 4 bits are numbers in bytes of their own") {
  const Graph g = model(1, 22, node("Cast", R"("x")", "y", R"({"name": "to", "type": "INT", "i": "22"})"));
  CHECK(to_string(g.values[static_cast<size_t>(g.outputs[0])].type) == "i8[2,3]");
  Tensor x(DType::f32, {2, 3});
  for (int64_t i = 0; i < 6; ++i) x.set(i, 4.75 * static_cast<double>(i) - 9);
  CHECK(result(g, {{"x", x}}) == std::vector<double>{7, -4, 0, 5, -6, -2});
}

TEST_CASE("Constants of few bits are unpacked") {
  const std::string constant =
      R"(, "initializer": [{"name": "c", "dataType": 22, "dims": ["2", "3"], "int32Data": [33, 143, 127]}])";
  const Graph g =
      model(1, 1, node("Cast", R"("c")", "f", kToFloat) + "," + node("Add", R"("x", "f")", "y"), constant);
  CHECK(result(g, {{"x", Tensor(DType::f32, {2, 3})}}) == std::vector<double>{1, 2, -1, -8, -1, 7});
}

TEST_CASE("Other operators don't take such types") {
  CHECK_THROWS_WITH(model(17, 17, node("Relu", R"("x")", "y")),
                    Catch::Contains("reads `x`, a tensor of float8e4m3fn, which isn't supported there"));
  CHECK_THROWS_WITH(model(17, 17,
                          node("Cast", R"("x")", "f", R"({"name": "to", "type": "INT", "i": "19"})") + "," +
                              node("Concat", R"("x", "f")", "y")),
                    Catch::Contains("Concat") && Catch::Contains("inputs of one type"));
}

TEST_CASE("A branch reads such a value from around it") {
  const std::string inside =
      R"({"name": "b", "output": [{"name": "r"}], "node": [)" + node("Cast", R"("x")", "r", kToFloat) + "]}";
  const std::string constant =
      R"(, "initializer": [{"name": "c", "dataType": 9, "dims": [], "int32Data": [1]}])";
  const Graph g = model(19, 1,
                        node("If", R"("c")", "y",
                             R"({"name": "then_branch", "type": "GRAPH", "g": )" + inside +
                                 R"(}, {"name": "else_branch", "type": "GRAPH", "g": )" + inside + "}"),
                        constant);
  CHECK(result(g, {{"x", bytes(DType::u8, {0x3c, 0x40, 0xc0, 0x01, 0x7b, 0})}}) ==
        std::vector<double>{1, 2, -2, 0x1p-16, 57344, 0});
}
