// Products of bytes without zero points: the same numbers, whatever the types and zero points.
#include <random>

#include "catch.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

struct Case {
  std::string what, node, inputs;  // JSON: the node, the inputs behind a and b
  std::vector<std::pair<std::string, Tensor>> constants;
  int products;  // nodes left that multiply bytes
};

Tensor numbers(DType t, std::vector<int64_t> shape, const std::vector<double>& values) {
  Tensor out(t, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, values[static_cast<size_t>(i) % values.size()]);
  return out;
}

// Of all values.
Tensor bytes(DType t, const std::vector<int64_t>& shape, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Tensor out(t, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_int(i, static_cast<int64_t>(rng() % 256) - (t == DType::i8 ? 128 : 0));
  return out;
}

std::string input(const std::string& name, const std::string& type, const std::string& shape) {
  return R"({"name": ")" + name + R"(", "dtype": ")" + type + R"(", "shape": )" + shape + "}";
}

void check(const Case& c) {
  INFO(c.what);
  Model m = model_of(R"({"opset": 17, "inputs": [)" + c.inputs + R"(], "outputs": ["y"], "nodes": [)" +
                     c.node + "]}");
  for (const auto& [name, t] : c.constants) m.initializers.emplace_back(name, t);
  Graph g = build_graph(m);
  Values inputs;
  for (const ValueId v : g.inputs) {
    const Value& in = g.values[static_cast<size_t>(v)];
    inputs[in.name] = is_float(in.type.dtype) ? numbers(in.type.dtype, in.type.shape, {0.01, 0.02})
                                              : bytes(in.type.dtype, in.type.shape, 5);
  }
  const Values before = run_unfused(g, inputs);
  expand_quantized(g, evaluate_by_interpreter);
  check_close(run_unfused(g, inputs), before, 0);
  fold_constants(g, evaluate_by_interpreter);
  check_close(run_unfused(g, inputs), before, 0);
  check_close(run(g, partition(g), inputs), before, 0);
  CHECK(count(g, "MatMulInteger") + count(g, "ConvInteger") == c.products);
  CHECK(count(g, "QLinearMatMul") + count(g, "QLinearConv") == 0);
  for (const Node& n : g.nodes) {
    if (n.op != "MatMulInteger" && n.op != "ConvInteger") continue;
    CHECK(g.values[static_cast<size_t>(n.inputs[0])].type.dtype == DType::u8);
    CHECK(g.values[static_cast<size_t>(n.inputs[1])].type.dtype == DType::i8);
  }
}

std::string node(const std::string& op, const std::string& inputs, const std::string& attrs = "") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": ["y"], "attrs": {)" + attrs +
         "}}";
}

const char* const kPads = R"("pads": [1, 0, 2, 1], "strides": [2, 1])";

}  // namespace

TEST_CASE("MatMulInteger in every pair of types, with and without zero points") {
  for (const std::string a : {"u8", "i8"})
    for (const DType b : {DType::u8, DType::i8}) {
      const DType ta = a == "u8" ? DType::u8 : DType::i8;
      const Tensor weights = bytes(b, {7, 5}, 3);
      check({"no zero points",
             node("MatMulInteger", R"("a", "b")"),
             input("a", a, "[3, 7]"),
             {{"b", weights}},
             1});
      check({"scalars",
             node("MatMulInteger", R"("a", "b", "za", "zb")"),
             input("a", a, "[3, 7]"),
             {{"b", weights}, {"za", numbers(ta, {}, {11})}, {"zb", numbers(b, {1}, {100})}},
             1});
      check({"per row and column",
             node("MatMulInteger", R"("a", "b", "za", "zb")"),
             input("a", a, "[3, 7]"),
             {{"b", weights}, {"za", bytes(ta, {3}, 8)}, {"zb", bytes(b, {5}, 9)}},
             1});
      check({"at run time, batched",
             node("MatMulInteger", R"("a", "b", "za", "zb")"),
             input("a", a, "[2, 3, 7]") + "," + input("za", a, "[2, 3, 1]") + "," +
                 input("zb", b == DType::u8 ? "u8" : "i8", "[1, 1, 5]"),
             {{"b", weights}},
             1});
      check({"vectors",
             node("MatMulInteger", R"("a", "b", "za")"),
             input("a", a, "[7]"),
             {{"b", weights}, {"za", numbers(ta, {}, {3})}},
             1});
      check({"a matrix and a vector",
             node("MatMulInteger", R"("a", "b", "za", "zb")"),
             input("a", a, "[3, 7]"),
             {{"b", bytes(b, {7}, 4)}, {"za", bytes(ta, {3}, 8)}, {"zb", numbers(b, {}, {9})}},
             1});
    }
}

TEST_CASE("Zero points that vanish leave the product alone") {
  // u8 weights around 128, an i8 activation with zero point -128.
  Model m =
      model_of(R"({"opset": 17, "inputs": [)" + input("a", "u8", "[3, 7]") +
               R"(], "outputs": ["y"], "nodes": [)" + node("MatMulInteger", R"("a", "b", "", "zb")") + "]}");
  m.initializers.emplace_back("b", bytes(DType::u8, {7, 5}, 3));
  m.initializers.emplace_back("zb", numbers(DType::u8, {}, {128}));
  Graph g = build_graph(m);
  expand_quantized(g, evaluate_by_interpreter);
  fold_constants(g, evaluate_by_interpreter);
  CHECK(g.nodes.size() == 1);
}

TEST_CASE("ConvInteger: padding holds the zero point") {
  for (const std::string a : {"u8", "i8"})
    for (const DType b : {DType::u8, DType::i8}) {
      const DType ta = a == "u8" ? DType::u8 : DType::i8;
      const Tensor w = bytes(b, {4, 3, 2, 3}, 3);
      check({"no zero points",
             node("ConvInteger", R"("a", "b")", kPads),
             input("a", a, "[2, 3, 5, 6]"),
             {{"b", w}},
             b == DType::u8 ? 2 : 1});
      check({"zero points",
             node("ConvInteger", R"("a", "b", "za", "zb")", kPads),
             input("a", a, "[2, 3, 5, 6]"),
             {{"b", w}, {"za", numbers(ta, {}, {77})}, {"zb", bytes(b, {4}, 4)}},
             2});
      check({"at run time",
             node("ConvInteger", R"("a", "b", "za")", kPads),
             input("a", a, "[2, 3, 5, 6]") + "," + input("za", a, "[]"),
             {{"b", w}},
             b == DType::u8 ? 2 : 1});
    }
}

TEST_CASE("QLinearMatMul and QLinearConv are sums and what rounds them") {
  for (const std::string a : {"u8", "i8"})
    for (const DType y : {DType::u8, DType::i8}) {
      const DType ta = a == "u8" ? DType::u8 : DType::i8;
      const std::vector<std::pair<std::string, Tensor>> common = {{"sa", numbers(DType::f32, {}, {0.02})},
                                                                  {"za", numbers(ta, {}, {50})},
                                                                  {"sy", numbers(DType::f32, {}, {1.3})},
                                                                  {"zy", numbers(y, {}, {5})}};
      auto of = common;
      of.insert(of.end(), {{"b", bytes(DType::i8, {7, 5}, 3)},
                           {"sb", numbers(DType::f32, {5}, {0.3, 0.5, 1, 0.7, 2})},
                           {"zb", bytes(DType::i8, {5}, 6)}});
      check({"matrices", node("QLinearMatMul", R"("a", "sa", "za", "b", "sb", "zb", "sy", "zy")"),
             input("a", a, "[3, 7]"), of, 1});
      of = common;
      of.insert(of.end(), {{"b", bytes(DType::u8, {4, 3, 2, 3}, 3)},
                           {"sb", numbers(DType::f32, {4}, {0.3, 0.5, 1, 0.7})},
                           {"zb", numbers(DType::u8, {4}, {128})},
                           {"bias", numbers(DType::i32, {4}, {1000, -2000, 3, 0})}});
      check({"images", node("QLinearConv", R"("a", "sa", "za", "b", "sb", "zb", "sy", "zy", "bias")", kPads),
             input("a", a, "[2, 3, 5, 6]"), of, 1});
    }
}
