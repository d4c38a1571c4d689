// A processor that computes in f32 only holds f16 and bf16 as f32 between nodes, so that every kernel, layout
// and algorithm of f32 serves. Results aren't rounded to 16 bits on the way: converting to f16 and back takes
// longer than most operators behind a convolution, and the model comes nearer to what it would be in f32.
// Rounded are outputs, and what a Cast of the model rounds. What stays in 16 bits is what memory is for:
// inputs and outputs, and the weights, which products read as they are (MatMul of f32 times f16); and
// products of bf16 where the processor has an instruction for them.
//
//   c = Conv(x, w, b); y = Relu(c)          all f16
//   c = Conv(f32(x), w, f32(b));  y = f16(Relu(c))
#include <map>

#include "nestor/error.h"
#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/graph/spell_out_halves.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

using ops::is_half;

constexpr int kOpset = 14;

class Widening {
 public:
  Widening(Graph& g, bool bf16_dots) : g_(g), bf16_dots_(bf16_dots) {}

  void run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node n = g_.nodes[i];  // a copy: values move when some are added
      if (is_cast_of_half(n))
        read_wide(n);
      else if (is_op(n, "Cast") && half(n.outputs[0]) && type_of(n.inputs[0]) == DType::f32 &&
               OpContext(g_, n).get_int(kUnrounded, 0) != 0)
        leave_wide(n);
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
    n.inputs[0] = wide(n.inputs[0]);
    if (type_of(n.outputs[0]) == DType::f32)
      n = {"Identity", n.name, kOpset, {n.inputs[0]}, n.outputs, {}, ""};
    nodes_.push_back(std::move(n));
  }

  // The cast serves outputs only; operators read what it casts.
  void leave_wide(const Node& n) {
    nodes_.push_back(n);
    wide_[n.outputs[0]] = n.inputs[0];
  }

  // Weights of a product with something else stay as they are, and what is computed from sizes.
  bool stays(const Node& n, size_t i) const {
    if (!value_of(g_, n.inputs[i]).elements.empty()) return true;
    const bool weights = is_op(n, "MatMul") || is_op(n, "Gemm")
                             ? i < 2
                             : (is_op(n, "Conv") || is_op(n, "ConvTranspose")) && i == 1;
    return weights && is_constant(g_, n.inputs[i]);
  }

  // n on f32, and casts of its outputs; false where it isn't defined so.
  bool compute_wide(const Node& n) {
    Node computed = n;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (half(n.inputs[i]) && !stays(n, i)) computed.inputs[i] = wide(n.inputs[i]);
    const OpDef& op = *find_op(n.domain, n.op, n.opset);
    for (ValueId& v : computed.outputs)
      if (half(v)) v = new_wide(v);
    if (!gives_wide(computed, op)) return false;
    nodes_.push_back(computed);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (!half(n.outputs[k])) continue;
      cast(computed.outputs[k], n.outputs[k]);
      wide_[n.outputs[k]] = computed.outputs[k];
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
  std::map<ValueId, ValueId> wide_;  // the f32 that stands for a half
};

}  // namespace

void widen_halves(Graph& g, const OptimizeOptions& options) {
  Widening(g, options.bf16_dots).run();
  remove_dead_nodes(g, {});  // casts that nothing reads, which would count as uses
}

}  // namespace nestor
