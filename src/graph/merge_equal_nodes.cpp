// Common subexpressions: nodes of one operator, with equal attributes and the same inputs, are one node;
// constants of the same bytes are one constant. Nodes are in topological order, so one walk suffices: what a
// node reads is merged before it.
#include <fmt/format.h>

#include <cstring>

#include "src/graph/edit.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

// Larger constants are told apart by identity: comparing every weight with every other gains nothing.
constexpr int64_t kLargest = 1 << 20;

std::string key_of(const Tensor& t) {
  std::string key = to_string(t.dtype(), t.shape());
  key.append(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
  return key;
}

// Every string is preceded by its length, so that different nodes have different keys.
std::string key_of(const AttrValue& v) {
  const auto sized = [](const std::string& s) { return fmt::format("{}:{}", s.size(), s); };
  const auto bits = [](double d) {
    uint64_t u = 0;
    std::memcpy(&u, &d, sizeof u);
    return fmt::format("{:x} ", u);
  };
  std::string out = fmt::format("{}=", v.index());
  std::visit(Overloaded{[&](int64_t i) { out += fmt::format("{}", i); }, [&](double d) { out += bits(d); },
                        [&](const std::string& s) { out += sized(s); },
                        [&](const Tensor& t) { out += sized(key_of(t)); },
                        [&](const std::vector<int64_t>& l) {
                          for (int64_t i : l) out += fmt::format("{} ", i);
                        },
                        [&](const std::vector<double>& l) {
                          for (double d : l) out += bits(d);
                        },
                        [&](const std::vector<std::string>& l) {
                          for (const std::string& s : l) out += sized(s);
                        }},
             v);
  return out + ";";
}

std::string key_of(const Node& n) {
  std::string out = fmt::format("{}:{}:{}(", n.domain, n.op, n.opset);
  for (ValueId v : n.inputs) out += fmt::format("{},", v);
  out += ")";
  for (ValueId v : n.outputs) out += v >= 0 ? "+" : "-";
  for (const auto& [name, value] : n.attrs) out += fmt::format("{}:{}", name, key_of(value));
  return out;
}

void merge_constants(Graph& g) {
  std::map<std::string, ValueId> seen;
  for (size_t v = 0; v < g.values.size(); ++v) {
    const Tensor& t = g.values[v].constant;
    if (!t.defined() || t.bytes() > kLargest) continue;
    const auto [it, fresh] = seen.try_emplace(key_of(t), static_cast<ValueId>(v));
    if (!fresh) replace_reads(g, static_cast<ValueId>(v), it->second);
  }
}

}  // namespace

void merge_equal_nodes(Graph& g, const EvaluateFn&) {
  merge_constants(g);
  Forwarding forwarding(g);
  std::vector<bool> keep(g.nodes.size(), true);
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    forwarding.resolve(g.nodes[i]);
    if (g.nodes[i].op == "Identity") continue;  // kept for the name of an output
    const auto [it, fresh] = seen.try_emplace(key_of(g.nodes[i]), i);
    if (fresh) continue;
    const std::vector<ValueId> outputs = g.nodes[i].outputs;
    if (outputs.size() > 1 && std::any_of(outputs.begin(), outputs.end(),
                                          [&](ValueId v) { return v >= 0 && forwarding.is_output(v); }))
      continue;
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k] >= 0 && forwarding.forward(outputs[k], g.nodes[it->second].outputs[k])) keep[i] = false;
  }
  forwarding.finish();
  compact(g, keep);
}

}  // namespace nestor
