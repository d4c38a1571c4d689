// A processor that computes in f32 only holds f16 and bf16 as f32 between nodes, each value rounded to what
// its type has: the numbers are the same, and every kernel, layout and algorithm of f32 serves. What stays in
// 16 bits is what memory is for: inputs and outputs, and the weights, which products read as they are (MatMul
// of f32 times f16); and products of bf16 where the processor has an instruction for them.
//
//   c = Conv(x, w, b); y = Relu(c)          all f16
//   c = f32(f16(Conv(f32(x), w, f32(b))));  y = f16(Relu(c))
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "nestor/error.h"
#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

using ops::is_half;

constexpr int kOpset = 14;
constexpr int64_t kSmall = 4096;

class Widening {
 public:
  Widening(Graph& g, bool bf16_dots) : g_(g), bf16_dots_(bf16_dots) {}

  void run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node n = g_.nodes[i];  // a copy: values move when some are added
      note_exact(n);
      if (is_cast_of_half(n))
        read_wide(n);
      else if (is_op(n, "Cast") && half(n.outputs[0]) && holds(n.inputs[0], type_of(n.outputs[0])))
        reuse(n);
      else if (!has_half(n.outputs) || all_halves_are_constants(n) || has_instruction(n) || !compute_wide(n))
        nodes_.push_back(n);
    }
    replace_nodes(g_, std::move(nodes_));
    compact(g_, std::vector<bool>(g_.nodes.size(), true));
  }

 private:
  DType type_of(ValueId v) const { return value_of(g_, v).type.dtype; }
  bool half(ValueId v) const { return v >= 0 && is_half(type_of(v)); }
  bool has_half(const std::vector<ValueId>& values) const {
    for (const ValueId v : values)
      if (half(v)) return true;
    return false;
  }
  bool all_halves_are_constants(const Node& n) const {
    bool all = true;
    for (const ValueId v : n.inputs) all &= !half(v) || is_constant(g_, v);
    return all;
  }
  bool is_cast_of_half(const Node& n) const {
    return is_op(n, "Cast") && half(n.inputs[0]) && !half(n.outputs[0]) && !is_constant(g_, n.inputs[0]);
  }

  bool has_instruction(const Node& n) const {
    return bf16_dots_ && n.domain.empty() && type_of(n.inputs[0]) == DType::bf16 &&
           (n.op == "MatMul" || n.op == "Gemm" ||
            (n.op == "Conv" && OpContext(g_, n).get_int("group", 1) == 1));
  }

  ValueId cast(ValueId v, ValueId to) {
    nodes_.push_back({"Cast", "", kOpset, {v}, {to}, {{"to", std::string(name_of(type_of(to)))}}, ""});
    return to;
  }
  ValueId new_wide(ValueId v) {
    const Value& value = value_of(g_, v);
    return add_value(g_, value.name + ".f32", {DType::f32, value.type.shape});
  }
  // The f32 that stands for v.
  ValueId wide(ValueId v) {
    const auto it = wide_.find(v);
    return it != wide_.end() ? it->second : wide_[v] = cast(v, new_wide(v));
  }

  void read_wide(Node n) {
    const DType from = type_of(n.inputs[0]);
    n.inputs[0] = wide(n.inputs[0]);
    if (type_of(n.outputs[0]) == DType::f32) {
      rounded_[n.outputs[0]] = from;
      n = {"Identity", n.name, kOpset, {n.inputs[0]}, n.outputs, {}, ""};
    }
    nodes_.push_back(std::move(n));
  }

  // A cast of what is such a half already.
  void reuse(const Node& n) {
    nodes_.push_back(n);
    wide_[n.outputs[0]] = n.inputs[0];
  }

  // Whether the f32 v holds values of that type only.
  bool holds(ValueId v, DType t) const {
    if (const auto it = rounded_.find(v); it != rounded_.end()) return it->second == t;
    if (!is_constant(g_, v) || constant_of(g_, v).size() > kSmall) return false;
    const Tensor &x = constant_of(g_, v), y = x.cast(t);
    for (int64_t i = 0; i < x.size(); ++i)
      if (x.get(i) != y.get(i) && !std::isnan(x.get(i))) return false;
    return true;
  }

  // Operators whose result is one of the elements they read, or one with another sign.
  void note_exact(const Node& n) {
    static const std::set<std::string> exact = {"Relu",    "Clip",          "Max",       "Min",
                                                "Abs",     "Neg",           "Sign",      "Where",
                                                "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin"};
    if (!n.domain.empty() || !exact.count(n.op) || type_of(n.outputs[0]) != DType::f32) return;
    if (n.op == "Clip" && (n.inputs.size() < 3 || n.inputs[1] < 0 || n.inputs[2] < 0))
      return;  // a bound that is left out is the largest f32
    std::optional<DType> of;
    for (const ValueId v : n.inputs)
      if (const auto it = rounded_.find(v); it != rounded_.end()) of = it->second;
    if (!of) return;
    for (const ValueId v : n.inputs)
      if (v >= 0 && type_of(v) == DType::f32 && !holds(v, *of)) return;
    rounded_[n.outputs[0]] = *of;
  }

  // Weights of a product with something else stay as they are, and what is computed from sizes.
  bool stays(const Node& n, size_t i) const {
    if (!value_of(g_, n.inputs[i]).elements.empty()) return true;
    const bool weights = is_op(n, "MatMul") || is_op(n, "Gemm")
                             ? i < 2
                             : (is_op(n, "Conv") || is_op(n, "ConvTranspose")) && i == 1;
    return weights && is_constant(g_, n.inputs[i]);
  }

  // n on f32, and its outputs rounded; false where it isn't defined so.
  bool compute_wide(const Node& n) {
    Node computed = n;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (half(n.inputs[i]) && !stays(n, i)) computed.inputs[i] = wide(n.inputs[i]);
    const OpDef& op = *find_op(n.domain, n.op, n.opset);
    for (ValueId& v : computed.outputs)
      if (half(v)) v = new_wide(v);
    if (!gives_wide(computed, op)) return false;
    nodes_.push_back(computed);
    const bool moves = op.pattern == Pattern::injective || op.pattern == Pattern::broadcast;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (!half(n.outputs[k])) continue;
      cast(computed.outputs[k], n.outputs[k]);
      if (moves) wide_[n.outputs[k]] = computed.outputs[k];
    }
    return true;
  }

  bool gives_wide(const Node& n, const OpDef& op) const {
    try {
      const std::vector<TensorType> types = op.infer(OpContext(g_, n));
      for (size_t k = 0; k < n.outputs.size(); ++k)
        if (n.outputs[k] >= 0 && types.at(k) != value_of(g_, n.outputs[k]).type) return false;
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  Graph& g_;
  const bool bf16_dots_;
  std::vector<Node> nodes_;
  std::map<ValueId, ValueId> wide_;   // the f32 that stands for a half
  std::map<ValueId, DType> rounded_;  // values of f32 that hold halves
};

}  // namespace

void widen_halves(Graph& g, const OptimizeOptions& options) {
  Widening(g, options.bf16_dots).run();
}

}  // namespace nestor
