// Losses of training, and what goes with them: of use where a model is evaluated.
#include "src/graph/compose.h"

namespace nestor {

namespace {

// -w[t] x[n, t, ...] of the classes t of each place, and how the places come together.
std::string negative_log_likelihood(Composer& c, const std::string& x, const TensorType& type,
                                    const std::string& target, const std::string& weight) {
  const OpContext& ctx = c.ctx();
  const std::string reduction = ctx.get_string("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    ctx.fail("`reduction` is \"" + reduction + "\"", "none, sum or mean");
  if (type.shape.size() < 2)
    ctx.fail("the scores are " + to_string(type) + ", they need a batch and classes");
  std::string classes = c.cast(target, DType::i64), ignored, w;
  if (ctx.has_attr("ignore_index")) {
    ignored =
        c.op("Equal", {classes, c.scalar(static_cast<double>(ctx.get_int("ignore_index", 0)), DType::i64)});
    classes = c.op("Where", {ignored, c.scalar(0, DType::i64), classes});
  }
  const std::string at = c.op("Unsqueeze", {classes, c.ints({1})});
  const std::string found =
      c.op("Squeeze", {c.op("GatherElements", {x, at}, {{"axis", int64_t{1}}}), c.ints({1})});
  std::string loss = c.op("Neg", {found});
  if (!weight.empty()) w = c.op("Gather", {weight, classes});
  if (!ignored.empty())
    w = c.op("Where", {ignored, c.scalar(0, type.dtype), w.empty() ? c.scalar(1, type.dtype) : w});
  if (!w.empty()) loss = c.op("Mul", {loss, w});
  if (reduction == "none") return loss;
  if (reduction == "sum") return c.reduced("ReduceSum", loss, {}, false);
  if (w.empty()) return c.reduced("ReduceMean", loss, {}, false);
  return c.op("Div", {c.reduced("ReduceSum", loss, {}, false), c.reduced("ReduceSum", w, {}, false)});
}

void likelihood(Composer& c) {
  c.give(0, negative_log_likelihood(c, c.input(0), c.type(0), c.input(1), c.has(2) ? c.input(2) : ""));
}

void cross_entropy(Composer& c) {
  const std::string logs = c.op("LogSoftmax", {c.input(0)}, {{"axis", int64_t{1}}});
  c.give(0, negative_log_likelihood(c, logs, c.type(0), c.input(1), c.has(2) ? c.input(2) : ""));
  c.give(1, logs);
}

}  // namespace

std::vector<Composition> loss_compositions() {
  return {{"", "NegativeLogLikelihoodLoss", 12, likelihood},
          {"", "SoftmaxCrossEntropyLoss", 12, cross_entropy}};
}

}  // namespace nestor
