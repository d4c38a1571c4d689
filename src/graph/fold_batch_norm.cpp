// BatchNormalization with known statistics is x * s + t for each channel, s = scale / sqrt(var + eps), t =
// bias - mean * s. Behind a convolution or a matrix product whose weights are constant, s goes into the
// weights and t into the bias. Elsewhere a Mul and an Add are left, which fuse with what follows: also where
// weights of 16 bits serve a product in f32, since they would be rounded a second time, which nearly doubles
// a network's error. All of it is computed in f64 and rounded once.
#include <cmath>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

struct ScaleShift {
  std::vector<double> s, t;  // by channel
};

// False where the statistics aren't constant or the node asks for more than y.
bool read_batch_norm(const Graph& g, const Node& n, ScaleShift& out) {
  if (n.op != "BatchNormalization" || !n.domain.empty() || n.inputs.size() != 5) return false;
  for (size_t i = 1; i < 5; ++i)
    if (!is_constant(g, n.inputs[i])) return false;
  for (size_t i = 1; i < n.outputs.size(); ++i)
    if (n.outputs[i] >= 0) return false;
  const double eps = OpContext(g, n).get_float("epsilon", 1e-5);
  const Tensor &scale = constant_of(g, n.inputs[1]), &bias = constant_of(g, n.inputs[2]);
  const Tensor &mean = constant_of(g, n.inputs[3]), &var = constant_of(g, n.inputs[4]);
  for (int64_t c = 0; c < scale.size(); ++c) {
    const double s = scale.get(c) / std::sqrt(var.get(c) + eps);
    out.s.push_back(s);
    out.t.push_back(bias.get(c) - mean.get(c) * s);
  }
  return scale.shape().size() == 1;  // statistics of every element (spatial = 0) have more dimensions
}

// The output channel that each element of the weight contributes to, by flat index.
int64_t channel_of(const OpContext& ctx, const Tensor& w, int64_t flat, int64_t channels) {
  const auto& shape = w.shape();
  const std::string& op = ctx.node().op;
  if (op == "Conv") return flat / (w.size() / channels);
  if (op == "Gemm") return ctx.get_int("transB", 0) != 0 ? flat / shape[1] : flat % shape[1];
  // ConvTranspose: [input channel, output channel within the group, kernel...]
  const int64_t group = ctx.get_int("group", 1), kernel = w.size() / (shape[0] * shape[1]);
  const int64_t input = flat / kernel / shape[1];
  return input / (shape[0] / group) * shape[1] + flat / kernel % shape[1];
}

bool has_weights(const Graph& g, const Node& n) {
  const bool known = n.op == "Conv" || n.op == "ConvTranspose" || n.op == "Gemm";
  if (!known || !n.domain.empty() || !is_constant(g, n.inputs[1]) || constant_of(g, n.inputs[1]).size() == 0)
    return false;
  if (n.inputs.size() < 3 || n.inputs[2] < 0) return true;
  if (!is_constant(g, n.inputs[2])) return false;
  // Gemm's C may also vary by row.
  const Tensor& bias = constant_of(g, n.inputs[2]);
  return n.op != "Gemm" || bias.size() == 1 || (!bias.shape().empty() && bias.shape().back() == bias.size());
}

// Whether its weights have 16 bits, and its result 32.
bool would_round_again(const Graph& g, const Node& n) {
  return ops::is_half(constant_of(g, n.inputs[1]).dtype()) &&
         !ops::is_half(value_of(g, n.outputs[0]).type.dtype);
}

// `name` is a copy: values move when constants are added.
void scale_weights(Graph& g, Node& n, const ScaleShift& bn, std::string name) {
  const auto channels = static_cast<int64_t>(bn.s.size());
  const OpContext ctx(g, n);
  Tensor w = constant_of(g, n.inputs[1]).clone();
  for (int64_t i = 0; i < w.size(); ++i)
    w.set(i, w.get(i) * bn.s[static_cast<size_t>(channel_of(ctx, w, i, channels))]);
  const double beta = n.op == "Gemm" ? ctx.get_float("beta", 1) : 1;
  const Tensor* old = n.inputs.size() > 2 && n.inputs[2] >= 0 ? &constant_of(g, n.inputs[2]) : nullptr;
  Tensor b(value_of(g, n.inputs[0]).type.dtype, {channels});
  for (int64_t c = 0; c < channels; ++c) {
    const double before = old ? beta * old->get(old->size() == 1 ? 0 : c) : 0;
    b.set(c, before * bn.s[static_cast<size_t>(c)] + bn.t[static_cast<size_t>(c)]);
  }
  if (n.op == "Gemm") n.attrs.erase("beta");
  n.inputs.resize(3, -1);
  n.inputs[1] = add_constant(g, name + ".weight", std::move(w));
  n.inputs[2] = add_constant(g, name + ".bias", std::move(b));
  if (n.op == "Gemm" && n.opset < 7) n.opset = 7;  // whose C broadcasts without an attribute
}

// y = Add(Mul(x, s), t) with s and t of shape [C, 1, 1...].
void append_mul_add(Graph& g, const Node& n, const ScaleShift& bn, std::vector<Node>& nodes) {
  const TensorType type = value_of(g, n.inputs[0]).type;
  std::vector<int64_t> shape(type.shape.size() > 2 ? type.shape.size() - 1 : 1, 1);
  shape[0] = static_cast<int64_t>(bn.s.size());
  Tensor s(type.dtype, shape), t(type.dtype, shape);
  for (int64_t c = 0; c < s.size(); ++c) {
    s.set(c, bn.s[static_cast<size_t>(c)]);
    t.set(c, bn.t[static_cast<size_t>(c)]);
  }
  const std::string name = value_of(g, n.outputs[0]).name;
  const ValueId scaled = add_value(g, name + ".scaled", type);
  const ValueId s_id = add_constant(g, name + ".scale", std::move(s)),
                t_id = add_constant(g, name + ".shift", std::move(t));
  nodes.push_back({"Mul", n.name, 13, {n.inputs[0], s_id}, {scaled}, {}, ""});
  nodes.push_back({"Add", n.name, 13, {scaled, t_id}, {n.outputs[0]}, {}, ""});
}

}  // namespace

void fold_batch_norm(Graph& g, const EvaluateFn&) {
  const std::vector<int> uses = count_uses(g);  // of the values there are now; folding adds only constants
  std::vector<Node> nodes;
  std::map<ValueId, size_t> made_by;  // by value: index into `nodes`
  for (const Node& n : g.nodes) {
    ScaleShift bn;
    if (!read_batch_norm(g, n, bn)) {
      for (ValueId v : n.outputs) made_by[v] = nodes.size();
      nodes.push_back(n);
      continue;
    }
    const auto sole_maker = [&](ValueId v) {
      const auto it = made_by.find(v);
      return it != made_by.end() && uses[static_cast<size_t>(v)] == 1 ? &nodes[it->second] : nullptr;
    };
    Node* weighted = sole_maker(n.inputs[0]);
    if (weighted && has_weights(g, *weighted) && !would_round_again(g, *weighted)) {
      scale_weights(g, *weighted, bn, value_of(g, n.outputs[0]).name);
      weighted->outputs[0] = n.outputs[0];
      made_by[n.outputs[0]] = static_cast<size_t>(weighted - nodes.data());
    } else {
      append_mul_add(g, n, bn, nodes);
    }
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
