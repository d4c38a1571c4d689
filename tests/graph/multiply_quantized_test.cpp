// Products of dequantized operands: which become products of bytes, and that they come to the same.
#include <cmath>
#include <random>

#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

Tensor bytes(DType t, const Dims& shape, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Tensor out(t, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_int(i, static_cast<int64_t>(rng() % 256) - (t == DType::i8 ? 128 : 0));
  return out;
}

Tensor steps(const Dims& shape) {
  Tensor out(DType::f32, shape);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, 0.01 + 0.003 * static_cast<double>(i % 5));
  return out;
}

struct Case {
  std::string shape;  // of x, u8
  std::string op, attrs = "";
  Dims weights, scales = {};  // i8, and those of their scales
  int64_t axis = 0;
  bool x_point = true, w_point = false, bias = false, relu = false, quantized = true;
  DType activations = DType::u8;
};

// x -> DequantizeLinear -> op (w by DequantizeLinear) -> Relu? -> QuantizeLinear?
Graph model(const Case& c) {
  const bool u8 = c.activations == DType::u8;
  const auto node = [](const std::string& op, const std::string& in, const std::string& out,
                       const std::string& attrs = "") {
    return R"({"op": ")" + op + R"(", "inputs": [)" + in + R"(], "outputs": [")" + out + R"("], "attrs": {)" +
           attrs + "}}";
  };
  std::string text = R"({"opset": 17, "inputs": [{"name": "q", "dtype": ")" +
                     std::string(name_of(c.activations)) + R"(", "shape": )" + c.shape +
                     R"(}], "outputs": ["y"], "nodes": [)";
  text += node("DequantizeLinear", c.x_point ? R"("q","sx","zx")" : R"("q","sx")", "x") + ",";
  text += node("DequantizeLinear", c.w_point ? R"("wq","sw","zw")" : R"("wq","sw")", "w",
               R"("axis": )" + std::to_string(c.axis)) +
          ",";
  text += node(c.op, c.bias ? R"("x","w","b")" : R"("x","w")", c.quantized || c.relu ? "p" : "y", c.attrs);
  if (c.relu) text += "," + node("Relu", R"("p")", c.quantized ? "r" : "y");
  if (c.quantized)
    text += "," + node("QuantizeLinear", c.relu ? R"("r","sy","zy")" : R"("p","sy","zy")", "y");
  Model m = model_of(text + "]}");
  const auto constant = [&](const char* name, Tensor t) { m.initializers.emplace_back(name, std::move(t)); };
  constant("sx", steps({}));
  constant("zx", bytes(c.activations, {}, 3));
  constant("wq", bytes(DType::i8, c.weights, 4));
  constant("sw", steps(c.scales));
  constant("zw", bytes(DType::i8, c.scales, 5));
  constant("b", Tensor::random(DType::f32, {c.op == "Conv" ? static_cast<int64_t>(c.weights[0]) : 6}, 6));
  Tensor sy(DType::f32, {});
  sy.set(0, 0.37);
  constant("sy", sy);
  Tensor zy(DType::i8, {});
  zy.set_int(0, u8 ? -3 : 7);
  constant("zy", zy);
  return build_graph(m);
}

Values inputs_of(const Graph& g) {
  Values in;
  for (const ValueId v : g.inputs) {
    const Value& value = g.values[static_cast<size_t>(v)];
    in[value.name] = bytes(value.type.dtype, value.type.shape, 9);
  }
  return in;
}

void check_bytes(const Case& c, const std::string& made = "") {
  if (made.empty()) return check_bytes(c, c.op == "Conv" ? "ConvInteger" : "MatMulInteger");
  INFO(c.op << " " << c.attrs << " of " << c.shape);
  Graph g = model(c);
  const Values in = inputs_of(g), before = run_unfused(g, in);
  multiply_quantized(g, evaluate_by_interpreter);
  CHECK(count(g, made) == 1);
  CHECK(count(g, c.op) == 0);
  check_close(run_unfused(g, in), before, 1e-6);
  optimize(g, evaluate_by_interpreter);
  CHECK(count(g, "DequantizeLinear") + count(g, "Div") == 0);
  check_close(run_unfused(g, in), before, 1e-6);
  check_close(run(g, partition(g, {.channel_block = 4}), in), before, 1e-6);
}

void check_kept(const Case& c) {
  INFO(c.op << " " << c.attrs << " of " << c.shape);
  Graph g = model(c);
  multiply_quantized(g, evaluate_by_interpreter);
  CHECK(count(g, c.op) == 1);
}

const std::string kPads = R"("pads": [1,1,0,2], "strides": [2,1])";

}  // namespace

TEST_CASE("Convolutions of dequantized bytes are convolutions of bytes") {
  const Dims w = {6, 4, 3, 3};
  check_bytes({"[1,4,6,5]", "Conv", kPads, w});
  check_bytes({"[1,4,6,5]", "Conv", kPads, w, {6}});
  check_bytes({"[2,4,6,5]", "Conv", kPads, w, {1}, 1, true, true});
  check_bytes({"[1,4,6,5]", "Conv", kPads, w, {6}, -4, true, true, true});
  check_bytes({"[1,4,6,5]", "Conv", "", w, {}, 0, false, false, true, true});
  check_bytes({"[1,4,6,5]", "Conv", kPads, w, {6}, 0, true, false, true, true, false});
  check_bytes({"[1,4,6,5]", "Conv", kPads, w, {6}, 0, true, false, true, true, true, DType::i8});
  check_bytes({"[1,4,9]", "Conv", R"("pads": [1,1])", {6, 4, 3}, {6}, 0, true, false, true});
}

TEST_CASE("Scales that aren't finite stay beside their bytes") {
  Graph g = model({"[1,4,6,6]", "Conv", "", {4, 4, 3, 3}, {4}});
  for (Value& v : g.values)
    if (v.name == "sw") v.constant.set(1, INFINITY);
  optimize(g, evaluate_by_interpreter);
  CHECK(count(g, "ConvInteger") == 0);
}

TEST_CASE("Convolutions by groups read bytes and multiply numbers") {
  const auto check = [](const Case& c) { check_bytes(c, "DequantizedConv"); };
  check({"[1,8,6,5]", "Conv", R"("group": 2)", {6, 4, 3, 3}, {6}, 0, true, false, true});
  check({"[2,4,6,5]", "Conv", R"("group": 4, )" + kPads, {4, 1, 3, 3}, {4}, 0, true, true, true, true});
  check({"[2,4,6,5]",
         "Conv",
         R"("group": 4)",
         {8, 1, 3, 3},
         {},
         0,
         false,
         false,
         false,
         false,
         true,
         DType::i8});
  check({"[1,4,9]",
         "Conv",
         R"("group": 4, "pads": [2,1])",
         {4, 1, 3},
         {4},
         0,
         true,
         false,
         true,
         false,
         false});
}

TEST_CASE("Products of dequantized matrices are products of bytes") {
  check_bytes({"[3,5]", "MatMul", "", {5, 6}});
  check_bytes({"[2,3,5]", "MatMul", "", {5, 6}, {6}, 1, true, true, false, true});
  check_bytes({"[5]", "MatMul", "", {5, 6}, {6}, -1, false, true});
  check_bytes({"[3,5]", "MatMul", "", {5, 6}, {6}, 1, true, false, false, false, false, DType::i8});
  check_bytes({"[3,5]", "Gemm", "", {5, 6}, {6}, 1, true, true, true});
  check_bytes({"[3,5]", "Gemm", R"("transB": 1)", {6, 5}, {6}, 0, true, true, true, true});
  check_bytes({"[3,5]", "Gemm", R"("transB": 1)", {6, 5}, {}, 0, true, true});
}

TEST_CASE("Sums that an i32 might not hold stay floats") {
  check_kept({"[1,140000]", "MatMul", "", {140000, 2}});  // of bytes at random, 64 * 255 each
  check_kept({"[1,140000]", "Gemm", R"("transB": 1)", {2, 140000}, {2}, 0, true, true});
  const auto kept = [](int64_t terms, bool zeros) {
    Graph g = model({"[1," + std::to_string(terms) + "]", "MatMul", "", {terms, 1}});
    for (Value& v : g.values)
      if (v.name == "wq") {
        v.constant = v.constant.clone();
        for (int64_t i = 0; i < terms; ++i) v.constant.set_int(i, zeros ? 0 : -128);
      }
    multiply_quantized(g, evaluate_by_interpreter);
    return count(g, "MatMul") == 1;
  };
  CHECK_FALSE(kept(65793, false));  // 65793 * 255 * 128 < 2^31
  CHECK(kept(65794, false));
  CHECK_FALSE(kept(200000, true));
}

TEST_CASE("Without an instruction for bytes Winograd's convolutions, and those of few channels, are floats") {
  const auto kept = [](const Case& c, bool winograd = true) {
    Graph g = model(c);
    multiply_quantized(g, evaluate_by_interpreter, {.winograd = winograd, .dots = false});
    return count(g, "Conv") == 1;
  };
  const std::string same = R"("pads": [1,1,1,1])";
  CHECK(kept({"[1,16,8,8]", "Conv", same, {16, 16, 3, 3}}));
  CHECK_FALSE(kept({"[1,16,8,8]", "Conv", same, {16, 16, 3, 3}}, false));
  CHECK_FALSE(kept({"[1,16,6,6]", "Conv", same, {16, 16, 3, 3}}));
  CHECK_FALSE(kept({"[1,8,8,8]", "Conv", same, {16, 8, 3, 3}}));
  CHECK_FALSE(kept({"[1,16,8,8]", "Conv", same, {16, 16, 1, 1}}));
  CHECK(kept({"[1,3,8,8]", "Conv", same, {16, 3, 7, 7}}));
  CHECK_FALSE(kept({"[1,16,8,8]", "Conv", R"("group": 16, )" + same, {16, 1, 3, 3}}));
}

TEST_CASE("Weights that are transposed behind their bytes are bytes") {
  Graph g = graph_of(R"({"opset": 17, "inputs": [{"name": "q", "dtype": "u8", "shape": [3,5]}],
    "initializers": {"s": {"dtype": "f32", "shape": [], "data": [0.5]},
                     "t": {"dtype": "f32", "shape": [2], "data": [0.5, 0.25]},
                     "w": {"dtype": "i8", "shape": [2,5], "data": [1,2,3,4,5,6,7,8,9,10]}},
    "outputs": ["y"], "nodes": [
    {"op": "DequantizeLinear", "inputs": ["q","s"], "outputs": ["x"]},
    {"op": "DequantizeLinear", "inputs": ["w","t"], "outputs": ["v"], "attrs": {"axis": 0}},
    {"op": "Transpose", "inputs": ["v"], "outputs": ["u"]},
    {"op": "MatMul", "inputs": ["x","u"], "outputs": ["y"]}]})");
  const Values in = inputs_of(g), before = run_unfused(g, in);
  optimize(g, evaluate_by_interpreter);
  CHECK(count(g, "MatMulInteger") == 1);
  CHECK(count(g, "Transpose") == 0);
  check_close(run_unfused(g, in), before, 1e-6);
}

TEST_CASE("What no product of bytes comes to stays as it is") {
  check_kept({"[3,5]", "MatMul", "", {5, 6}, {5}, 0});  // scales along the sum
  check_kept({"[3,5]", "Gemm", R"("transB": 1)", {6, 5}, {5}, 1});
  check_kept({"[3,5]", "Gemm", R"("alpha": 0.5)", {5, 6}});
  check_kept({"[5,3]", "Gemm", R"("transA": 1)", {5, 6}});
  check_kept({"[1,4,6,5]", "Conv", kPads, {6, 4, 3, 3}, {4}, 1});
}
