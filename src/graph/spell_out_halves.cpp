// ONNX has its operators for f16 and bf16, too, and says that a result is rounded to the type it has. Those
// that only move elements take any type, and products of matrices and convolutions add halves up in f32 by
// themselves. Every other one is computed in f32 and rounded once:
//
//   y = Softmax(x)   is   y = CastLike(Softmax(Cast(x, f32)), x)
//
// The casts are elementwise, so that fusion leaves them in registers.
#include "src/graph/spell_out_halves.h"

#include <algorithm>

#include "nestor/error.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

constexpr int kCastOpset = 13;
constexpr int64_t kSmall = 65536;  // elements of an input that may say a shape

using ops::is_half;

DType type_of(const Graph& g, ValueId v) {
  return g.values[static_cast<size_t>(v)].type.dtype;
}

bool infers(const Graph& g, const Node& n, const OpDef& op) {
  try {
    op.infer(OpContext(g, n));
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Which input's type a result of f32 has in truth: that of the first input of floats, but for statistics.
size_t pattern_of(const Graph& g, const Node& n, size_t output) {
  if (n.op == "BatchNormalization" && output > 0 && n.inputs.size() > 3) return 3;
  for (size_t i = 0; i < n.inputs.size(); ++i)
    if (n.inputs[i] >= 0 && is_float(type_of(g, n.inputs[i]))) return i;
  return 0;
}

// Mean and deviation of a norm are as they were computed, by default in f32.
bool stays_wide(const Node& n, size_t output) {
  return output > 0 && n.op == "LayerNormalization";
}

ModelNode cast(const ModelNode& of, const std::string& from, const std::string& to, DType type) {
  ModelNode c{"Cast", "", of.name, {from}, {to}, {{"to", std::string(name_of(type))}}, {}};
  c.opset = kCastOpset;
  return c;
}

}  // namespace

std::optional<std::vector<ModelNode>> spell_out_halves(const Graph& g, const Node& n, const ModelNode& mn,
                                                       const OpDef& op, FreshNames& fresh) {
  const auto half = [&](ValueId v) { return v >= 0 && is_half(type_of(g, v)); };
  if (std::none_of(n.inputs.begin(), n.inputs.end(), half) || infers(g, n, op)) return std::nullopt;

  std::vector<ModelNode> nodes;
  Graph wide;  // the node as it will be, to learn its results' types
  Node wide_node = n;
  ModelNode computed = mn;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId v = n.inputs[i];
    if (v < 0) continue;
    wide_node.inputs[i] = static_cast<ValueId>(wide.values.size());
    wide.values.push_back(g.values[static_cast<size_t>(v)]);
    if (!half(v)) continue;
    Value& value = wide.values.back();
    value.type.dtype = DType::f32;
    if (value.constant.defined())
      value.constant = value.constant.size() <= kSmall ? value.constant.cast(DType::f32) : Tensor();
    const auto same = std::find(mn.inputs.begin(), mn.inputs.begin() + static_cast<long>(i), mn.inputs[i]);
    const auto first = static_cast<size_t>(same - mn.inputs.begin());
    if (first < i) {
      computed.inputs[i] = computed.inputs[first];
      continue;
    }
    computed.inputs[i] = fresh(mn.inputs[i] + ".f32");
    nodes.push_back(cast(mn, mn.inputs[i], computed.inputs[i], DType::f32));
  }
  // Where this fails, too, halves aren't what the operator refuses.
  const std::vector<TensorType> types = op.infer(OpContext(wide, wide_node));
  std::vector<ModelNode> rounded;
  for (size_t k = 0; k < std::min(types.size(), mn.outputs.size()); ++k) {
    if (mn.outputs[k].empty() || types[k].dtype != DType::f32 || stays_wide(n, k)) continue;
    const DType to = type_of(g, n.inputs[pattern_of(g, n, k)]);
    if (!is_half(to)) continue;
    computed.outputs[k] = fresh(mn.outputs[k] + ".f32");
    rounded.push_back(cast(mn, computed.outputs[k], mn.outputs[k], to));
    rounded.back().attrs[kUnrounded] = int64_t{1};
  }
  nodes.push_back(std::move(computed));
  nodes.insert(nodes.end(), rounded.begin(), rounded.end());
  return nodes;
}

}  // namespace nestor
