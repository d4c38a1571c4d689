// ONNX Runtime's operators of bytes are read as ONNX's between DequantizeLinear and QuantizeLinear.
#include <cmath>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/graph.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// a and b: u8[1,2,2,3], scales 0.5 and 0.25, zero points 10 and 20; results by 0.75 and 30.
Graph model(const std::string& op, const std::string& inputs, const std::string& attrs = "") {
  return graph_of(R"({"opset": 17, "inputs": [{"name": "a", "dtype": "u8", "shape": [1,2,2,3]},
                                              {"name": "b", "dtype": "u8", "shape": [1,2,2,3]}],
    "initializers": {"sa": {"dtype": "f32", "shape": [], "data": [0.5]},
      "sb": {"dtype": "f32", "shape": [], "data": [0.25]}, "sy": {"dtype": "f32", "shape": [], "data": [0.75]},
      "za": {"dtype": "u8", "shape": [], "data": [10]}, "zb": {"dtype": "u8", "shape": [], "data": [20]},
      "zy": {"dtype": "u8", "shape": [], "data": [30]}},
    "outputs": ["y"], "nodes": [{"op": ")" +
                  op + R"(", "domain": "com.microsoft", "inputs": [)" + inputs +
                  R"(], "outputs": ["y"], "attrs": {)" + attrs + "}}]}");
}

Values inputs_of(const Graph& g) {
  Values in;
  for (const ValueId v : g.inputs) {
    const Value& value = g.values[static_cast<size_t>(v)];
    Tensor t(value.type.dtype, value.type.shape);
    for (int64_t i = 0; i < t.size(); ++i) t.set_int(i, (i * 89 + v * 31) % 256);
    in[value.name] = t;
  }
  return in;
}

int64_t byte(double value) {  // by 0.75 and 30
  return std::clamp<int64_t>(std::lrint(value / 0.75) + 30, 0, 255);
}

// y[i] of f(a[i], b[i]).
template <class F>
void check_pointwise(const Graph& g, const F& f) {
  const Values in = inputs_of(g);
  const Tensor y = run_unfused(g, in).at("y");
  for (int64_t i = 0; i < y.size(); ++i) {
    const double a = 0.5 * static_cast<double>(in.at("a").get_int(i) - 10),
                 b = in.count("b") ? 0.25 * static_cast<double>(in.at("b").get_int(i) - 20) : 0;
    CHECK(std::abs(y.get_int(i) - byte(f(a, b))) <= (std::abs(std::remainder(f(a, b) / 0.75, 1)) > 0.4999));
  }
}

const std::string kBoth = R"("a","sa","za","b","sb","zb","sy","zy")", kOne = R"("a","sa","za","sy","zy")";

}  // namespace

TEST_CASE("Sums, products and functions of bytes") {
  check_pointwise(model("QLinearAdd", kBoth), [](double a, double b) { return a + b; });
  check_pointwise(model("QLinearMul", kBoth), [](double a, double b) { return a * b; });
  check_pointwise(model("QLinearLeakyRelu", kOne, R"("alpha": 0.3)"),
                  [](double a, double) { return a < 0 ? 0.3 * a : a; });
  check_pointwise(model("QLinearSigmoid", kOne), [](double a, double) { return 1 / (1 + std::exp(-a)); });
  const Graph g = model("QLinearAdd", kBoth);
  CHECK(count(g, "DequantizeLinear") == 2);
  CHECK(count(g, "QuantizeLinear") == 1);
}

TEST_CASE("Concatenations have the result's scale first; pooling leaves its layout's attribute behind") {
  const Graph g = model("QLinearConcat", R"("sy","zy","a","sa","za","b","sb","zb")", R"("axis": 1)");
  const Values in = inputs_of(g);
  const Tensor y = run_unfused(g, in).at("y");
  REQUIRE(y.shape() == std::vector<int64_t>{1, 4, 2, 3});
  CHECK(y.get_int(0) == byte(0.5 * static_cast<double>(in.at("a").get_int(0) - 10)));
  CHECK(y.get_int(23) == byte(0.25 * static_cast<double>(in.at("b").get_int(11) - 20)));
  CHECK(count(model("QLinearGlobalAveragePool", kOne, R"("channels_last": 0)"), "GlobalAveragePool") == 1);
  CHECK_THROWS_AS(model("QLinearGlobalAveragePool", kOne, R"("channels_last": 1)"), UserError);
  CHECK_THROWS_AS(model("QLinearAdd", kOne), UserError);
}

TEST_CASE("A softmax takes its axis as the opset that it says does") {
  const auto softmax = [](const std::string& attrs) {
    return count(model("QLinearSoftmax", kOne, attrs), "Softmax");
  };
  CHECK(softmax(R"("opset": 13, "axis": 1)") == 1);
  CHECK(softmax(R"("opset": 12, "axis": -1)") == 1);
  CHECK(softmax(R"("opset": 12)") == 1);
  CHECK_THROWS_AS(softmax(R"("opset": 12, "axis": 1)"), UserError);  // over all axes behind
  CHECK_THROWS_AS(softmax(R"("axis": 1)"), UserError);
  const Graph g = model("QLinearSoftmax", kOne, R"("opset": 12)");
  const Values in = inputs_of(g);
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) sum += std::exp(0.5 * static_cast<double>(in.at("a").get_int(i)));
  const double first = std::exp(0.5 * static_cast<double>(in.at("a").get_int(0))) / sum;
  CHECK(run_unfused(g, in).at("y").get_int(0) == byte(first));
}

TEST_CASE("What isn't the same, or says no type, stays what it is and is refused") {
  CHECK_THROWS_AS(model("QLinearAdd", R"("a","sa","za","b","sb","zb","sy")"), UserError);
  const std::string gemm = R"("a","sa","za","b","sb","zb","c")";
  CHECK_THROWS_AS(model("QGemm", gemm, R"("alpha": 0.5)"), UserError);
}

TEST_CASE("Values between the nodes have names that nothing else has") {
  const Graph g = graph_of(R"({"opset": 17, "inputs": [{"name": "y.value", "dtype": "u8", "shape": [3]}],
    "initializers": {"s": {"dtype": "f32", "shape": [], "data": [0.5]},
                     "z": {"dtype": "u8", "shape": [], "data": [10]}}, "outputs": ["y"], "nodes": [
    {"op": "QLinearSigmoid", "domain": "com.microsoft", "inputs": ["y.value","s","z","s","z"],
     "outputs": ["y"]}]})");
  CHECK(count(g, "Sigmoid") == 1);
}

TEST_CASE("QGemm counts its third matrix in steps of both scales") {
  for (const bool transposed : {false, true})
    for (const bool bytes : {false, true}) {
      Model m = model_of(R"({"opset": 17, "inputs": [{"name": "a", "dtype": "u8", "shape": [2,3]}],
        "outputs": ["y"], "nodes": [{"op": "QGemm", "domain": "com.microsoft",
        "inputs": ["a","sa","za","w","sw","zw","c")" +
                         std::string(bytes ? R"(,"sy","zy")" : "") +
                         R"(], "outputs": ["y"], "attrs": {"transB": )" + (transposed ? "1" : "0") + "}}]}");
      const auto constant = [&](const char* name, DType t, std::vector<int64_t> shape,
                                const std::vector<double>& values) {
        Tensor x(t, std::move(shape));
        for (int64_t i = 0; i < x.size(); ++i) x.set(i, values[static_cast<size_t>(i)]);
        m.initializers.emplace_back(name, x);
      };
      constant("sa", DType::f32, {}, {0.5});
      constant("za", DType::u8, {}, {10});
      constant("w", DType::i8, transposed ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{3, 2},
               transposed ? std::vector<double>{1, 3, 5, 2, 4, 6} : std::vector<double>{1, 2, 3, 4, 5, 6});
      constant("sw", DType::f32, {2}, {0.25, 0.125});
      constant("zw", DType::i8, {2}, {0, 1});
      constant("c", DType::i32, {2}, {100, -40});
      constant("sy", DType::f32, {}, {0.75});
      constant("zy", DType::u8, {}, {30});
      const Graph g = build_graph(m);
      const Values in = inputs_of(g);
      const Tensor y = run_unfused(g, in).at("y");
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 2; ++j) {
          int64_t sum = j == 0 ? 100 : -40;
          for (int64_t k = 0; k < 3; ++k)
            sum += (in.at("a").get_int(i * 3 + k) - 10) * (2 * k + 1 + j - (j == 0 ? 0 : 1));
          const double want = static_cast<double>(sum) * 0.5 * (j == 0 ? 0.25 : 0.125);
          if (bytes)
            CHECK(y.get_int(i * 2 + j) == byte(want));
          else
            CHECK(y.get(i * 2 + j) == Approx(want));
        }
    }
}
