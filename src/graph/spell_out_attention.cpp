// Attention and RotaryEmbedding of opset 23 are read as what exporters wrote before there were such
// operators, so that there is one road for both, to the same fused kernels:
//
//   Y = softmax(cap(scale Q K^T) + bias) V        cap(x) = c tanh(x / c)
//
// where the bias is the mask, -inf for keys that a mask is too short for, that come after a query
// (`is_causal`; the last of the past is before the first of the queries) or beyond a batch's length. A query
// whose bias is -inf throughout gives 0. Keys and values of fewer heads are repeated for the queries' that
// share them.
#include <cmath>
#include <limits>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"
#include "src/ops/attention.h"

namespace nestor {

namespace {

class AttentionSpeller : Expansion {
 public:
  AttentionSpeller(Graph& g, const Node& n, std::vector<Node>& nodes)
      : Expansion(g, n, nodes), s_(ops::attention_shape(OpContext(g, n))) {}

  void run() {
    const OpContext ctx(g_, n_);
    const DType t = type(n_.inputs[0]).dtype, precise = ops::softmax_type(ctx);
    const double cap = ctx.get_float("softcap", 0),
                 scale = ctx.get_float("scale", 1 / std::sqrt(static_cast<double>(s_.size)));
    const int64_t mode = ctx.get_int("qk_matmul_output_mode", 0);
    const ValueId q = by_heads(0, s_.heads), key = with_past(1, 4), value = with_past(2, 5);
    if (wants(1)) give(1, key);
    if (wants(2)) give(2, value);
    const ValueId product = add("MatMul", {q, transposed(repeated(key), {0, 1, 3, 2})});
    ValueId scores = add("Mul", {product, constant(t, scale)});
    if (cap > 0)
      scores = add("Mul", {add("Tanh", {add("Div", {scores, constant(t, cap)})}), constant(t, cap)});
    ValueId asked = scores;
    const ValueId bias = bias_of(ctx, t);
    if (bias >= 0) scores = add("Add", {scores, bias});
    if (mode == 2) asked = scores;
    ValueId weights = cast(add("Softmax", {cast(scores, precise)}, {{"axis", int64_t{-1}}}), t);
    ValueId y = add("MatMul", {weights, repeated(value)});
    if (bias >= 0 && may_mask_all_) {
      const ValueId most = add("ReduceMax", {bias}, {{"axes", Dims{-1}}});
      const ValueId none = add("Equal", {most, constant(t, -kInf)}), zero = constant(t, 0);
      y = add("Where", {none, zero, y});
      if (mode == 3 && wants(3)) weights = add("Where", {none, zero, weights});
    }
    if (mode == 3) asked = weights;
    if (wants(3)) give(3, asked);
    if (s_.flat) y = reshaped(transposed(y, {0, 2, 1, 3}), {s_.batch, s_.queries, s_.heads * s_.v_size});
    if (wants(0)) give(0, y);
  }

 private:
  static constexpr double kInf = std::numeric_limits<double>::infinity();

  // Input i as [batch, heads, sequence, size].
  ValueId by_heads(size_t i, const Dim& heads) {
    const ValueId v = n_.inputs[i];
    if (!s_.flat) return v;
    const Dims shape = type(v).shape;
    return transposed(reshaped(v, {s_.batch, shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
  }
  ValueId with_past(size_t i, size_t past) {
    const ValueId v = by_heads(i, s_.kv_heads);
    return has_input(past) ? concatenated({n_.inputs[past], v}, 2) : v;
  }
  // For each head of the queries.
  ValueId repeated(ValueId v) {
    if (s_.heads == s_.kv_heads) return v;
    const Dims shape = type(v).shape;
    const ValueId apart = reshaped(v, {s_.batch, s_.kv_heads, 1, shape[2], shape[3]});
    const Dims all = {s_.batch, s_.kv_heads, s_.heads / s_.kv_heads, shape[2], shape[3]};
    return reshaped(add("Expand", {apart, list(all)}), {s_.batch, s_.heads, shape[2], shape[3]});
  }

  // 0 where `allowed`, else -inf.
  ValueId where_allowed(ValueId allowed, DType t) {
    return add("Where", {allowed, constant(t, 0), constant(t, -kInf)});
  }

  // What is added to the scores; -1: nothing.
  ValueId bias_of(const OpContext& ctx, DType t) {
    const bool causal = ctx.get_int("is_causal", 0) != 0;
    const int64_t left = ctx.get_int("left_window_size", -1), right = ctx.get_int("right_window_size", -1);
    const bool windows = left >= 0 || right >= 0;
    ValueId bias = has_input(3) ? mask(t) : -1;
    const auto allow = [&](const char* op, ValueId a, ValueId b) {
      const ValueId more = where_allowed(add(op, {a, b}), t);
      bias = bias < 0 ? more : add("Add", {bias, more});
    };
    may_mask_all_ = has_input(3) || has_input(6) || windows;
    const ValueId lengths = has_input(6) ? reshaped(n_.inputs[6], {s_.batch, 1, 1, 1}) : -1;
    const ValueId keys = counted("places", {s_.total()});
    if (lengths >= 0) allow("Less", keys, lengths);
    if (!causal && !windows) return bias;
    const ValueId before = lengths < 0 ? size(s_.past) : add("Sub", {lengths, size(s_.queries)});
    const ValueId query = add("Add", {counted("places", {s_.queries, 1}), before});
    if (causal) allow("LessOrEqual", keys, query);
    if (left >= 0) allow("LessOrEqual", add("Sub", {query, number(left)}), keys);
    if (right >= 0) allow("LessOrEqual", keys, add("Add", {query, number(right)}));
    return bias;
  }
  ValueId number(int64_t n) { return constant(DType::i64, static_cast<double>(n)); }

  ValueId mask(DType t) {
    const ValueId given = n_.inputs[3];
    const ValueId m = type(given).dtype == DType::boolean ? where_allowed(given, t) : given;
    Dims missing = type(m).shape;
    missing.back() = s_.total() - missing.back();
    if (missing.back() == 0) return m;
    const ValueId none = add("Expand", {constant(t, -kInf), list(missing)});
    return concatenated({m, none}, static_cast<int64_t>(missing.size()) - 1);
  }

  const ops::AttentionShape s_;
  bool may_mask_all_ = false;
};

class RotarySpeller : Expansion {
 public:
  RotarySpeller(Graph& g, const Node& n, std::vector<Node>& nodes)
      : Expansion(g, n, nodes), s_(ops::rotary_shape(OpContext(g, n))) {}

  // x as [batch, sequence, heads, size] where it is flat, else [batch, heads, sequence, size].
  void run() {
    const bool interleaved = OpContext(g_, n_).get_int("interleaved", 0) != 0;
    const Dims shape = type(n_.inputs[0]).shape;
    const ValueId x =
        s_.flat ? reshaped(n_.inputs[0], {s_.batch, s_.sequence, s_.heads, s_.size}) : n_.inputs[0];
    const int64_t half = s_.rotated / 2;
    const ValueId a = interleaved ? sliced(x, 3, 0, s_.rotated, 2) : sliced(x, 3, 0, half),
                  b = interleaved ? sliced(x, 3, 1, s_.rotated, 2) : sliced(x, 3, half, s_.rotated);
    const ValueId cos = cache(1), sin = cache(2);
    const ValueId real = add("Sub", {add("Mul", {cos, a}), add("Mul", {sin, b})}),
                  imaginary = add("Add", {add("Mul", {sin, a}), add("Mul", {cos, b})});
    ValueId y = interleaved ? beside(real, imaginary) : concatenated({real, imaginary}, 3);
    if (s_.rotated < s_.size) y = concatenated({y, sliced(x, 3, s_.rotated, s_.size)}, 3);
    give(0, reshaped(y, shape));
  }

 private:
  // The sines or cosines of each position, beside all heads.
  ValueId cache(size_t i) {
    const ValueId v =
        has_input(3) ? add("Gather", {n_.inputs[i], n_.inputs[3]}, {{"axis", int64_t{0}}}) : n_.inputs[i];
    const int64_t half = s_.rotated / 2;
    return reshaped(v, s_.flat ? Dims{s_.batch, s_.sequence, 1, half} : Dims{s_.batch, 1, s_.sequence, half});
  }
  ValueId beside(ValueId a, ValueId b) {
    Dims shape = type(a).shape, one = shape;
    one.push_back(1);
    shape.back() *= 2;
    const ValueId first = reshaped(a, one), second = reshaped(b, one);
    return reshaped(concatenated({first, second}, 4), shape);
  }

  const ops::RotaryShape s_;
};

}  // namespace

bool spell_out_attention(Graph& g, const Node& n, std::vector<Node>& nodes) {
  if (!n.domain.empty()) return false;
  if (n.op == "Attention")
    AttentionSpeller(g, n, nodes).run();
  else if (n.op == "RotaryEmbedding")
    RotarySpeller(g, n, nodes).run();
  else
    return false;
  return true;
}

}  // namespace nestor
