// Where bytes are made of x, x / s is rounded: a division for each element, which takes as long as several
// products. If x is a sum of terms that are scaled by constants, these are divided instead, once and for all,
// and x comes out in steps:
//
//   round((sum * m + b) / s)  =  round(sum * (m / s) + b / s)
//
// a rounding of f32 apart, as ONNX Runtime's own functions of bytes have it. Where x lies half way between
// two bytes that rounding may choose another one: of averages, whose sums of bytes come out in halves, often.
// Steps are positive, so they pass maxima, and what only moves elements.
#include <algorithm>
#include <optional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

bool is_one_of(const Node& n, std::initializer_list<const char*> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const char* op) { return is_op(n, op); });
}

class StepFolder {
 public:
  explicit StepFolder(Graph& g) : g_(g), uses_(count_uses(g)), before_(g.nodes.size()) {}

  void run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const std::optional<double> step = step_of(g_.nodes[i]);
      if (!step || !divisible(g_.nodes[i].inputs[0])) continue;
      divide(i, 0, *step);
      Tensor one(DType::f32, value_of(g_, g_.nodes[i].inputs[1]).type.shape);
      one.set(0, 1);
      g_.nodes[i].inputs[1] = add_constant(g_, "step", std::move(one));
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      nodes.insert(nodes.end(), before_[i].begin(), before_[i].end());
      nodes.push_back(g_.nodes[i]);
    }
    replace_nodes(g_, std::move(nodes));
    compact(g_, std::vector<bool>(g_.nodes.size(), true));
  }

 private:
  static constexpr int kDeepest = 16;

  // Of a QuantizeLinear whose step is one known number, not 1 already.
  std::optional<double> step_of(const Node& n) const {
    if (!is_one_of(n, {"QuantizeLinear"}) || !is_constant(g_, n.inputs[1])) return std::nullopt;
    const Tensor& t = constant_of(g_, n.inputs[1]);
    constexpr double kLeast = 1e-30;  // less might make infinities of constants
    if (t.size() != 1 || !(t.get(0) > kLeast) || t.get(0) == 1) return std::nullopt;
    return t.get(0);
  }

  bool is_real(ValueId v) const { return v >= 0 && value_of(g_, v).type.dtype == DType::f32; }
  bool is_real_constant(ValueId v) const { return is_real(v) && is_constant(g_, v); }

  // The inputs that must be divided for the node's result to be, or nothing where none would do.
  std::vector<size_t> divided_inputs(const Node& n) const {
    const auto all = [&] {
      std::vector<size_t> out;
      for (size_t k = 0; k < n.inputs.size(); ++k)
        if (n.inputs[k] >= 0) out.push_back(k);
      return out;
    };
    if (is_one_of(n, {"Add", "Sub", "Sum", "Max", "Min", "Concat", "Clip"})) return all();
    if (is_one_of(n, {"Mul"})) {
      if (is_real_constant(n.inputs[1])) return {1};
      return is_real_constant(n.inputs[0]) ? std::vector<size_t>{0} : std::vector<size_t>();
    }
    if (is_one_of(n, {"Relu", "LeakyRelu", "PRelu", "ReduceMean", "ReduceSum", "ReduceMax", "AveragePool",
                      "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Reshape", "Flatten", "Transpose",
                      "Squeeze", "Unsqueeze"}))
      return {0};
    // Weights, and a bias. A Gemm's is scaled by `beta` beside it.
    const bool weighted =
        is_one_of(n, {"Conv", "ConvTranspose", "Gemm", "MatMul"}) && is_real_constant(n.inputs[1]);
    if (n.domain == "nestor" && n.op == "DequantizedConv" && is_real_constant(n.inputs[1])) return {1};
    if (!weighted) return {};
    return n.inputs.size() > 2 && n.inputs[2] >= 0 ? std::vector<size_t>{1, 2} : std::vector<size_t>{1};
  }

  bool divisible(ValueId v, int depth = 0) const {
    if (!is_real(v) || depth > kDeepest) return false;
    if (is_constant(g_, v)) return true;
    const int p = value_of(g_, v).producer;
    if (p < 0) return false;
    const Node& n = g_.nodes[static_cast<size_t>(p)];
    if (is_one_of(n, {"DequantizeLinear"})) return is_real_constant(n.inputs[1]);
    if (uses_[static_cast<size_t>(v)] != 1 || n.outputs[0] != v) return false;
    const bool attributes = is_one_of(n, {"Clip"}) && n.opset < 11;  // its bounds, or the way it broadcasts
    const bool old = is_one_of(n, {"Add", "Sub", "Mul", "Gemm"}) && n.opset < 7;
    const std::vector<size_t> inputs = divided_inputs(n);
    return !attributes && !old && !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](size_t k) {
      return divisible(n.inputs[k], depth + 1);
    });
  }

  ValueId divided(ValueId constant, double step) {
    Tensor t = constant_of(g_, constant).clone();
    for (int64_t k = 0; k < t.size(); ++k) t.set(k, t.get(k) / step);
    return add_constant(g_, value_of(g_, constant).name + ".in_steps", std::move(t));
  }

  // Input k of node i comes in steps from now on.
  void divide(size_t i, size_t k, double step) {
    const ValueId v = g_.nodes[i].inputs[k];
    if (is_constant(g_, v)) {
      g_.nodes[i].inputs[k] = divided(v, step);
      return;
    }
    const auto p = static_cast<size_t>(value_of(g_, v).producer);
    if (!is_one_of(g_.nodes[p], {"DequantizeLinear"})) {
      for (const size_t input : divided_inputs(g_.nodes[p])) divide(p, input, step);
      return;
    }
    // Others may read these numbers as they are.
    Node own = g_.nodes[p];
    own.inputs[1] = divided(own.inputs[1], step);
    own.outputs = {add_value(g_, value_of(g_, v).name + ".in_steps", value_of(g_, v).type)};
    g_.nodes[i].inputs[k] = own.outputs[0];
    before_[i].push_back(std::move(own));
  }

  Graph& g_;
  const std::vector<int> uses_;  // of the values there were
  std::vector<std::vector<Node>> before_;
};

}  // namespace

void fold_steps(Graph& g, const EvaluateFn&) {
  StepFolder(g).run();
}

}  // namespace nestor
