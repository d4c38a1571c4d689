#include "src/graph/compose.h"

#include <fmt/format.h>

#include <algorithm>

namespace nestor {

namespace {

constexpr int kOpset = 23;

const std::vector<Composition>& compositions() {
  static const std::vector<Composition> all = [] {
    std::vector<Composition> out = onnx_compositions();
    for (auto family : {loss_compositions, region_compositions, step_compositions, contrib_compositions,
                        quantized_compositions, attention_compositions, chosen_compositions})
      for (Composition& c : family()) out.push_back(std::move(c));
    return out;
  }();
  return all;
}

const Composition* find(const std::string& domain, const std::string& op, int opset) {
  const std::string canonical = domain == "ai.onnx" ? "" : domain;
  for (const Composition& c : compositions())
    if (c.name == op && c.domain == canonical && opset >= c.since) return &c;
  return nullptr;
}

}  // namespace

std::vector<int64_t> Composer::known(size_t i) const {
  const Tensor* t = ctx_.constant(static_cast<int>(i));
  if (!t) ctx_.fail_unknown(static_cast<int>(i));
  std::vector<int64_t> out;
  for (int64_t k = 0; k < t->size(); ++k) out.push_back(t->get_int(k));
  return out;
}

int64_t Composer::known_number(size_t i) const {
  const std::vector<int64_t> values = known(i);
  if (values.size() != 1)
    ctx_.fail(fmt::format("input {} is {}, it must be one number", i, to_string(type(i))));
  return values[0];
}

Dim Composer::number_from(size_t i) const {
  const Dims values = ctx_.ints_from(static_cast<int>(i), "a number");
  if (values.size() != 1)
    ctx_.fail(fmt::format("input {} is {}, it must be one number", i, to_string(type(i))));
  return values[0];
}

Dim Composer::size(size_t i, size_t dimension) const {
  if (dimension >= shape(i).size())
    ctx_.fail(fmt::format("input {} is {}, it needs {} dimensions", i, to_string(type(i)), dimension + 1));
  return shape(i)[dimension];
}

int64_t Composer::axis(int64_t given, int64_t rank) const {
  if (given < -rank || given >= rank)
    ctx_.fail(fmt::format("axis {} is outside [{}, {}]", given, -rank, rank - 1));
  return given < 0 ? given + rank : given;
}

std::string Composer::op(const std::string& name, std::vector<std::string> inputs, Attrs attrs,
                         size_t outputs) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  ModelNode n{name, "", of_.name, std::move(inputs), {}, std::move(attrs), {}};
  n.opset = kOpset;
  for (size_t k = 0; k < outputs; ++k)
    n.outputs.push_back(fresh_(fmt::format("{}.{}", of_.outputs[0], name)));
  made_.nodes.push_back(std::move(n));
  return made_.nodes.back().outputs[0];
}

std::string Composer::own(const std::string& name, std::vector<std::string> inputs, Attrs attrs,
                          size_t outputs) {
  const std::string first = op(name, std::move(inputs), std::move(attrs), outputs);
  made_.nodes.back().domain = "nestor";
  made_.nodes.back().opset = 1;
  return first;
}

std::string Composer::found(const std::string& count, const Dim& most) {
  return own("FoundSize", {count, number(most)}, {{"symbol", of_.outputs[0] + ".count"}});
}

std::string Composer::output(const std::string& first, size_t i) const {
  for (const ModelNode& n : made_.nodes)
    if (n.outputs[0] == first) return n.outputs.at(i);
  return "";
}

std::string Composer::constant(Tensor t) {
  return op("Constant", {}, {{"value", std::move(t)}});
}

std::string Composer::scalar(double value, DType type) {
  Tensor t(type, {});
  t.set(0, value);
  return constant(std::move(t));
}

std::string Composer::ints(const Dims& values) {
  if (!values.known()) return made_.sizes.emplace_back(fresh_(of_.outputs[0] + ".sizes"), values).first;
  Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.set_int(static_cast<int64_t>(i), values[i]);
  return constant(std::move(t));
}

std::string Composer::number(const Dim& value) {
  return op("Squeeze", {ints({value})});
}

std::string Composer::counted(const Dim& n, int64_t rank, int64_t axis) {
  Dims shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = n;
  constexpr int64_t kMostBytesMade = 1 << 20;  // a shape may be large without bytes behind it
  if (!n.known() || n > kMostBytesMade / bytes_of(DType::i64))
    return reshaped(op("Range", {number(0), number(n), number(1)}), shape);
  Tensor t(DType::i64, shape);
  for (int64_t i = 0; i < n; ++i) t.set_int(i, i);
  return constant(std::move(t));
}

std::string Composer::cast(const std::string& v, DType to) {
  return op("Cast", {v}, {{"to", std::string(name_of(to))}});
}

std::string Composer::reshaped(const std::string& v, const Dims& shape) {
  return op("Reshape", {v, ints(shape)}, {{"allowzero", int64_t{1}}});
}

std::string Composer::reduced(const std::string& name, const std::string& v, const std::vector<int64_t>& axes,
                              bool keep) {
  return op(name, {v, axes.empty() ? "" : ints(axes)}, {{"keepdims", int64_t{keep}}});
}

std::string Composer::sliced(const std::string& v, int64_t axis, const Dim& from, const Dim& to) {
  return op("Slice", {v, ints({from}), ints({to}), ints({axis})});
}

void Composer::give(size_t i, const std::string& v) {
  if (!wants(i)) return;
  made_.nodes.push_back({"Identity", "", of_.name, {v}, {of_.outputs[i]}, {}, {}});
  made_.nodes.back().opset = kOpset;
}

std::string channels_second(Composer& c, const std::string& v, int64_t rank) {
  std::vector<int64_t> perm = {0, rank - 1};
  for (int64_t d = 1; d < rank - 1; ++d) perm.push_back(d);
  return c.op("Transpose", {v}, {{"perm", perm}});
}

std::string channels_last(Composer& c, const std::string& v, int64_t rank) {
  std::vector<int64_t> perm = {0};
  for (int64_t d = 2; d < rank; ++d) perm.push_back(d);
  perm.push_back(1);
  return c.op("Transpose", {v}, {{"perm", perm}});
}

std::optional<Composed> compose(const Graph& g, const Node& n, const ModelNode& of, FreshNames& fresh) {
  const Composition* c = find(of.domain, of.op, n.opset);
  if (!c) return std::nullopt;
  Composer composer(g, n, of, fresh);
  c->write(composer);
  return composer.take();
}

std::vector<std::string> composed_operators(const std::string& domain) {
  std::vector<std::string> out;
  if (domain.empty()) out = {"If", "Loop", "Scan"};
  for (const Composition& c : compositions())
    if (c.domain == domain) out.emplace_back(c.name);
  std::sort(out.begin(), out.end());
  return out;
}

bool is_composition(const std::string& domain, const std::string& op, int opset) {
  return find(domain, op, opset) != nullptr;
}

}  // namespace nestor
