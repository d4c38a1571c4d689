// Where bytes are made of x, x / s is rounded: a division for each element, which takes as long as several
// products. If x is a sum of terms that are scaled by constants, these are divided instead, once and for all,
// and x comes out in steps:
//
//   round((sum * m + b) / s)  =  round(sum * (m / s) + b / s)
//
// a rounding of f32 apart. Sums of products are added up in an order of our own anyway. Where there are none,
// or sums of integers that a model scales itself, ONNX says every bit of the bytes: then the constants are
// divided if all bytes there are come out the same (exact_steps.h), and else each element is. Steps are
// positive, so they pass maxima, and what only moves elements.
#include <algorithm>
#include <optional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/exact_steps.h"
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
      Makings made;
      read(g_.nodes[i].inputs[0], made);
      scales_.clear();
      next_scale_ = 0;
      if (!made.products && !find_scales(made, *step, value_of(g_, g_.nodes[i].outputs[0]).type.dtype))
        continue;
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

  // What a number that is divided is made of.
  struct Makings {
    bool products = false;      // a sum of products is among it
    bool more = false;          // arithmetic that isn't tried out
    int sums = 0;               // of two
    bool subtracted = false;    // the second of them
    std::vector<size_t> bytes;  // DequantizeLinear nodes, in the order in which `divide` meets them
  };

  static bool chooses(const Node& n) {
    return is_one_of(n, {"Max", "Min", "Concat", "Clip", "Relu", "ReduceMax", "GlobalMaxPool", "MaxPool",
                         "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"});
  }
  // Convolutions and the like, and integer ones that stand for them. A model's own integer sums are exact.
  static bool sums_products(const Node& n) {
    if (n.domain == "nestor" || is_one_of(n, {"Conv", "ConvTranspose", "Gemm", "MatMul"})) return true;
    return n.attrs.count(kOfReals) > 0;
  }

  void read(ValueId v, Makings& m, bool term = false) const {
    if (is_constant(g_, v)) {
      m.more = m.more || term;
      return;
    }
    const auto p = static_cast<size_t>(value_of(g_, v).producer);
    const Node& n = g_.nodes[p];
    if (is_one_of(n, {"DequantizeLinear"})) {
      m.bytes.push_back(p);
      return;
    }
    m.products = m.products || sums_products(n);
    const bool adds = is_one_of(n, {"Add", "Sub", "Sum"}) && n.inputs.size() == 2;
    if (adds) {
      ++m.sums;
      m.subtracted = n.op == "Sub";
    } else if (!chooses(n)) {
      m.more = true;
    }
    for (const size_t k : divided_inputs(n)) read(n.inputs[k], m, term || adds);
  }

  // Scales in steps for all bytes, by which each of them comes out the same.
  bool find_scales(const Makings& m, double step, DType to) {
    if (m.more || m.sums > 1 || (m.sums == 1 && m.bytes.size() != 2)) return false;
    std::vector<ByteTerm> terms;
    for (const size_t p : m.bytes) {
      const Node& n = g_.nodes[p];
      const DType type = value_of(g_, n.inputs[0]).type.dtype;
      const Tensor& scale = constant_of(g_, n.inputs[1]);
      if (bytes_of(type) > (m.sums > 0 ? 1 : 2) || (m.sums > 0 && scale.size() != 1)) return false;
      Tensor merged = scale.clone();
      for (int64_t k = 0; k < scale.size(); ++k) {
        terms.push_back(term_of(n, type, scale.get(k)));
        if (m.sums > 0) continue;
        const auto found = scales_in_steps({terms.back()}, false, step, to);
        if (!found) return false;
        merged.set(k, found->front());
      }
      scales_.push_back(std::move(merged));
    }
    if (m.sums == 0) return true;
    const auto found = scales_in_steps(terms, m.subtracted, step, to);
    for (size_t k = 0; found && k < scales_.size(); ++k) scales_[k].set(0, (*found)[k]);
    return found.has_value();
  }

  ByteTerm term_of(const Node& n, DType type, double scale) const {
    const int values = 1 << (8 * bytes_of(type)), least = is_unsigned(type) ? 0 : -values / 2;
    int64_t low = 0, high = 0;  // zero points
    if (n.inputs.size() > 2 && n.inputs[2] >= 0) {
      low = least, high = least + values - 1;
      if (is_constant(g_, n.inputs[2])) {
        const Tensor& zero = constant_of(g_, n.inputs[2]);
        std::swap(low, high);
        for (int64_t k = 0; k < zero.size(); ++k) {
          low = std::min(low, zero.get_int(k));
          high = std::max(high, zero.get_int(k));
        }
      }
    }
    return {scale, static_cast<int>(least - high), static_cast<int>(least + values - 1 - low)};
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
    own.inputs[1] = scales_.empty() ? divided(own.inputs[1], step)
                                    : add_constant(g_, value_of(g_, own.inputs[1]).name + ".in_steps",
                                                   scales_[next_scale_++]);
    own.outputs = {add_value(g_, value_of(g_, v).name + ".in_steps", value_of(g_, v).type)};
    g_.nodes[i].inputs[k] = own.outputs[0];
    before_[i].push_back(std::move(own));
  }

  Graph& g_;
  const std::vector<int> uses_;  // of the values there were
  std::vector<std::vector<Node>> before_;
  std::vector<Tensor> scales_;  // of bytes in the order of Makings; none: they are divided
  size_t next_scale_ = 0;
};

}  // namespace

void fold_steps(Graph& g, const EvaluateFn&) {
  StepFolder(g).run();
}

}  // namespace nestor
