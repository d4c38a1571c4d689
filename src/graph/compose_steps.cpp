// Operators that go step by step through rows or tokens, each step written out; and a few that are known
// once their inputs are.
#include <fmt/format.h>

#include <cmath>

#include "src/graph/compose.h"

namespace nestor {

namespace {

// Gaussian elimination with the largest pivot of each column: the product of the pivots, with a sign for each
// exchange of rows.
void det(Composer& c) {
  constexpr int64_t kMostRows = 64;
  const Dims& x = c.shape(0);
  if (x.size() < 2 || x.back() != x[x.size() - 2] || x.back() < 1 || x.back() > kMostRows)
    c.ctx().fail("the input is " + to_string(c.type(0)),
                 fmt::format("square matrices of 1 to {} rows", kMostRows));
  const int64_t n = x.back();
  const Dims outer(x.begin(), x.end() - 2);
  const Dim batch = product(outer);
  const std::string one = c.scalar(1, c.type(0).dtype), zero = c.scalar(0, c.type(0).dtype),
                    minus = c.scalar(-1, c.type(0).dtype);
  std::string a = c.reshaped(c.input(0), {batch, n, n}), result;
  for (int64_t m = n; m > 0; --m) {  // a is [batch, m, m]
    const std::string column = c.sliced(a, 2, 0, 1);
    const std::string at = c.op("ArgMax", {c.op("Abs", {column})}, {{"axis", int64_t{1}}});
    const std::string first = c.op("Equal", {at, c.scalar(0, DType::i64)});
    const std::string row =
        c.op("GatherElements", {a, c.op("Expand", {at, c.ints({batch, 1, m})})}, {{"axis", int64_t{1}}});
    const std::string pivot = c.sliced(row, 2, 0, 1);
    const std::string factor = c.op("Mul", {pivot, c.op("Where", {first, one, minus})});
    result = result.empty() ? factor : c.op("Mul", {result, factor});
    if (m == 1) break;
    // The pivot's row goes; the first stands in its place.
    const std::string chosen = c.op("Equal", {c.counted(m, 3, 1), at});
    const std::string rest = c.sliced(c.op("Where", {chosen, c.sliced(a, 1, 0, 1), a}), 1, 1, m);
    const std::string divisor = c.op("Where", {c.op("Equal", {pivot, zero}), one, pivot});
    const std::string times = c.op("Div", {c.sliced(rest, 2, 0, 1), divisor});
    a = c.op("Sub", {c.sliced(rest, 2, 1, m), c.op("Mul", {times, c.sliced(row, 2, 1, m)})});
  }
  c.give(0, c.reshaped(result, outer));
}

// A state of keys by values for each head, which every token fades (by decay), mends (by beta) and adds to,
// before its query reads it.
void linear_attention(Composer& c) {
  constexpr int64_t kMostTokens = 1024;
  const OpContext& ctx = c.ctx();
  const std::string rule = ctx.get_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    ctx.fail("`update_rule` is \"" + rule + "\"", "linear, gated, delta or gated_delta");
  if (gated != c.has(4) || delta != c.has(5))
    ctx.fail("the rule " + rule + " doesn't go with these inputs",
             "decay for gated rules, beta for delta rules");
  const int64_t q_heads = ctx.get_int("q_num_heads", 0), heads = ctx.get_int("kv_num_heads", 0);
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0)
    ctx.fail("`q_num_heads` must be a multiple of `kv_num_heads`");
  for (const size_t i : {0, 1, 2})
    if (c.rank(i) != 3)
      ctx.fail(fmt::format("input {} is {}, it must be [batch, length, channels]", i, to_string(c.type(i))));
  const int64_t batch = c.size(0, 0), length = c.size(0, 1), group = q_heads / heads,
                keys = c.size(0, 2) / q_heads, values = c.size(2, 2) / heads;
  if (length > kMostTokens)
    ctx.fail(fmt::format("{} tokens are too many", length), fmt::format("at most {}", kMostTokens));
  const DType type = c.type(0).dtype, wide = type == DType::f64 ? type : DType::f32;
  // Of each token [batch, heads, ...].
  const auto at = [&](const std::string& v, int64_t t, std::vector<int64_t> shape) {
    shape.insert(shape.begin(), batch);
    return c.reshaped(c.sliced(v, 1, t, t + 1), shape);
  };
  const std::string q = c.cast(c.input(0), wide), k = c.cast(c.input(1), wide), v = c.cast(c.input(2), wide);
  const std::string decay = gated ? c.op("Exp", {c.cast(c.input(4), wide)}) : "",
                    beta = delta ? c.cast(c.input(5), wide) : "";
  if (gated && c.size(4, 2) != heads && c.size(4, 2) != heads * keys)
    ctx.fail("the decay is " + to_string(c.type(4)) + ", it must have one number a head or a key");
  const double given = ctx.get_float("scale", 0);
  const std::string scale = c.scalar(given != 0 ? given : 1 / std::sqrt(static_cast<double>(keys)), wide);
  std::string state = c.has(3) ? c.cast(c.input(3), wide)
                               : c.op("Expand", {c.scalar(0, wide), c.ints({batch, heads, keys, values})});
  std::vector<std::string> outputs;
  for (int64_t t = 0; t < length; ++t) {
    const std::string key = at(k, t, {heads, keys, 1});
    std::string value = at(v, t, {heads, 1, values});
    if (gated) state = c.op("Mul", {state, at(decay, t, {heads, c.size(4, 2) == heads ? 1 : keys, 1})});
    if (delta) {
      const std::string found = c.op("MatMul", {at(k, t, {heads, 1, keys}), state});
      value = c.op("Mul", {at(beta, t, {c.size(5, 2), 1, 1}), c.op("Sub", {value, found})});
    }
    state = c.op("Add", {state, c.op("Mul", {key, value})});
    const std::string read = c.op("MatMul", {at(q, t, {heads, group, keys}), state});
    outputs.push_back(c.reshaped(c.op("Mul", {read, scale}), {batch, 1, q_heads * values}));
  }
  c.give(0, c.cast(c.op("Concat", outputs, {{"axis", int64_t{1}}}), type));
  c.give(1, c.cast(state, c.has(3) ? c.type(3).dtype : type));
}

// (x - mean) / (deviation + 1e-9)
void mean_variance_norm(Composer& c) {
  const std::vector<int64_t> axes = c.ctx().get_ints("axes", {0, 2, 3});
  const std::string apart = c.op("Sub", {c.input(0), c.reduced("ReduceMean", c.input(0), axes, true)});
  const std::string variance = c.reduced("ReduceMean", c.op("Mul", {apart, apart}), axes, true);
  c.give(0, c.op("Div", {apart, c.op("Add", {c.op("Sqrt", {variance}), c.scalar(1e-9, c.type(0).dtype)})}));
}

// Triangles over the bins of a spectrum, at equal distances on the mel scale of pitch.
void mel_weights(Composer& c) {
  constexpr int64_t kMost = 1 << 24;
  const OpContext& ctx = c.ctx();
  const int64_t bands = c.known_number(0), length = c.known_number(1), rate = c.known_number(2);
  const auto real = [&](size_t i) {
    c.known_number(i);
    return ctx.constant(static_cast<int>(i))->get(0);
  };
  const double low = real(3), high = real(4);
  const int64_t bins = length / 2 + 1;
  if (bands < 1 || length < 1 || rate < 1 || bands > kMost / bins || !(low >= 0) || !(high >= low))
    ctx.fail("the sizes or frequencies are out of range");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
    if (edges.back() >= bins) ctx.fail("a frequency is above half of the sample rate");
  }
  Tensor t(DType::f64, {bins, bands});
  for (int64_t i = 0; i < bands; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t left = edges[at], centre = edges[at + 1], right = edges[at + 2];
    const auto share = [](int64_t part, int64_t of) {
      return static_cast<double>(part) / static_cast<double>(of);
    };
    if (centre == left) t.set(centre * bands + i, 1);
    for (int64_t j = left; j <= centre && centre > left; ++j)
      t.set(j * bands + i, share(j - left, centre - left));
    for (int64_t j = centre; j < right; ++j) t.set(j * bands + i, share(right - j, right - centre));
  }
  c.give(0, c.op("Cast", {c.constant(t)}, {{"to", ctx.get_int("output_datatype", 1)}}));
}

}  // namespace

std::vector<Composition> step_compositions() {
  return {{"", "Det", 11, det},
          {"", "LinearAttention", 1, linear_attention},
          {"com.microsoft", "LinearAttention", 1, linear_attention},
          {"", "MeanVarianceNormalization", 9, mean_variance_norm},
          {"", "MelWeightMatrix", 17, mel_weights}};
}

}  // namespace nestor
