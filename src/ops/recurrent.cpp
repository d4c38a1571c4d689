#include "src/ops/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "nestor/nearest.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// The defaults of ONNX's operators of these names; `parameters`: how many of alpha and beta it takes.
struct Known {
  const char* name;
  int parameters;
  double alpha, beta;
};
constexpr Known kKnown[] = {
    {"Affine", 2, 1, 0},   {"Elu", 1, 1, 0},        {"HardSigmoid", 2, 0.2, 0.5}, {"LeakyRelu", 1, 0.01, 0},
    {"Relu", 0, 0, 0},     {"ScaledTanh", 2, 1, 1}, {"Sigmoid", 0, 0, 0},         {"Softplus", 0, 0, 0},
    {"Softsign", 0, 0, 0}, {"Tanh", 0, 0, 0},       {"ThresholdedRelu", 1, 1, 0}};

// Parameters are taken from the lists in the order of the functions that have any.
std::vector<Activation> activations_of(const OpContext& ctx, const std::vector<std::string>& defaults,
                                       int64_t directions) {
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  const size_t count = names.size();
  names = ctx.get_strings("activations", names);
  if (names.size() != count)
    ctx.fail(fmt::format("`activations` has {} entries, {} are needed", names.size(), count));
  const std::vector<double> alphas = ctx.get_floats("activation_alpha", {}),
                            betas = ctx.get_floats("activation_beta", {});
  size_t a = 0, b = 0;
  std::vector<Activation> out;
  for (const std::string& name : names) {
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const Known& k) { return edit_distance(k.name, name) == 0; });
    if (known == std::end(kKnown)) {
      std::vector<std::string> all;
      for (const Known& k : kKnown) all.emplace_back(k.name);
      const std::string near = did_you_mean(name, all);
      ctx.fail("`activations` has `" + name + "`, which is unknown",
               near.empty() ? fmt::format("there are {}", fmt::join(all, ", ")) : near);
    }
    Activation& made = out.emplace_back(Activation{known->name, known->alpha, known->beta});
    if (known->parameters > 0 && a < alphas.size()) made.alpha = alphas[a++];
    if (known->parameters > 1 && b < betas.size()) made.beta = betas[b++];
  }
  return out;
}

// ONNX Runtime's, whose products are of bytes.
constexpr const char* kQuantized = "DynamicQuantizeLSTM";

std::vector<std::string> usual_activations(const std::string& op) {
  if (op == "LSTM" || op == kQuantized) return {"Sigmoid", "Tanh", "Tanh"};
  if (op == "GRU") return {"Sigmoid", "Tanh"};
  return {"Tanh"};
}

int64_t gates_of(const std::string& op) {
  return op == "LSTM" || op == kQuantized ? 4 : op == "GRU" ? 3 : 1;
}

Dims state_shape(const RecurrentShape& s) {
  return s.batch_first ? Dims{s.batch, s.directions, s.hidden} : Dims{s.directions, s.batch, s.hidden};
}

// Those inputs that may be left out, as they must be where they are there.
void check_optional(const OpContext& ctx, const RecurrentShape& s) {
  const auto check = [&](int i, const Dims& shape) {
    if (!ctx.has_input(i)) return;
    require_same_type(ctx, kX, i);
    require_shape(ctx, i, shape);
  };
  const Dims state = state_shape(s);
  check(kB, {s.directions, 2 * s.gates * s.hidden});
  check(kInitialH, state);
  check(kInitialC, state);
  check(kPeepholes, {s.directions, 3 * s.hidden});
  if (ctx.has_input(kLengths)) {
    require_type(ctx, kLengths, {DType::i32});
    require_shape(ctx, kLengths, {s.batch});
    if (const Tensor* lengths = ctx.constant(kLengths))
      for (int64_t b = 0; b < lengths->size(); ++b)
        if (lengths->get_int(b) < 0 || lengths->get_int(b) > s.steps)
          ctx.fail(
              fmt::format("`sequence_lens` has {}, of {} steps", lengths->get_int(b), to_string(s.steps)));
  }
}

// Bytes, with a scale and a zero point for each direction or for each of its columns.
void check_quantized(const OpContext& ctx, const RecurrentShape& s) {
  require_type(ctx, kX, {DType::f32});
  for (const auto& [weights, scale, zero] : {std::tuple{kW, kWScale, kWZero}, {kR, kRScale, kRZero}}) {
    require_type(ctx, weights, {DType::i8, DType::u8});
    require_shape(ctx, weights, {s.directions, weights == kW ? s.size : s.hidden, s.gates * s.hidden});
    require_type(ctx, scale, {DType::f32});
    require_same_type(ctx, weights, zero);
    const Dims columns = {s.directions, s.gates * s.hidden};
    for (const int i : {scale, zero})
      if (ctx.input(i).shape != columns) require_shape(ctx, i, {s.directions});
  }
}

std::vector<TensorType> infer_recurrent(const OpContext& ctx) {
  const RecurrentShape s = recurrent_shape(ctx);
  const DType t = ctx.input(kX).dtype;
  const Dims y = s.batch_first ? Dims{s.batch, s.steps, s.directions, s.hidden}
                               : Dims{s.steps, s.directions, s.batch, s.hidden},
             state = state_shape(s);
  std::vector<TensorType> out = {{t, y}, {t, state}};
  if (s.gates == 4) out.push_back({t, state});
  return out;
}

}  // namespace

RecurrentShape recurrent_shape(const OpContext& ctx) {
  require_type(ctx, kX, kFloats);
  RecurrentShape s;
  s.quantized = ctx.node().op == kQuantized;
  for (const int i : {kX, kW, kR}) {
    if (!s.quantized) require_same_type(ctx, kX, i);
    require_rank(ctx, i, 3);
  }
  const int64_t layout = ctx.get_int("layout", 0);
  if (layout != 0 && layout != 1)
    ctx.fail(fmt::format("`layout` is {}", layout), "0 for steps first, 1 for the batch first");
  const std::string direction = ctx.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    ctx.fail("`direction` is `" + direction + "`", "forward, reverse or bidirectional");
  const Dims &x = ctx.input(kX).shape, &r = ctx.input(kR).shape;
  s.gates = gates_of(ctx.node().op);
  s.batch_first = layout == 1;
  s.backward = direction == "reverse";
  s.directions = direction == "bidirectional" ? 2 : 1;
  s.steps = x[s.batch_first ? 1 : 0];
  s.batch = x[s.batch_first ? 0 : 1];
  s.size = x[2];
  s.hidden = r[s.quantized ? 1 : 2];
  if (ctx.get_int("hidden_size", s.hidden) != s.hidden)
    ctx.fail(fmt::format("`hidden_size` is {}, the recurrence weights {} are for {}",
                         ctx.get_int("hidden_size", s.hidden), to_string(ctx.input(kR)), s.hidden));
  if (s.quantized) {
    check_quantized(ctx, s);
  } else {
    require_shape(ctx, kW, {s.directions, s.gates * s.hidden, s.size});
    require_shape(ctx, kR, {s.directions, s.gates * s.hidden, s.hidden});
  }
  if (s.steps < 1) ctx.fail(fmt::format("the sequence has {} steps", to_string(s.steps)));
  check_optional(ctx, s);
  s.clip = ctx.get_float("clip", 0);
  if (!(s.clip >= 0)) ctx.fail(fmt::format("`clip` is {}, it must not be negative", s.clip));
  s.activations = activations_of(ctx, usual_activations(ctx.node().op), s.directions);
  return s;
}

void register_recurrent(Rows& rows) {
  for (const auto& [name, inputs] : {std::pair{"LSTM", 8}, {"GRU", 6}, {"RNN", 6}})
    rows.push_back({.name = name,
                    .since = 7,
                    .min_inputs = 3,
                    .max_inputs = inputs,
                    .infer = infer_recurrent,
                    .spelled_out = true,
                    .note = "spelled out step by step; many steps are a loop"});
  rows.push_back({.name = kQuantized,
                  .domain = "com.microsoft",
                  .min_inputs = 3,
                  .max_inputs = 12,
                  .infer = infer_recurrent,
                  .spelled_out = true,
                  .note = "spelled out step by step; many steps are a loop"});
}

}  // namespace nestor::ops
