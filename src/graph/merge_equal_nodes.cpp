// Common subexpressions: nodes of one operator, with equal attributes and the same inputs, are one node;
// constants of the same bytes are one constant. Nodes are in topological order, so one walk suffices: what a
// node reads is merged before it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "src/graph/edit.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

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

std::string_view bytes_of(const Tensor& t) {
  return {static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes())};
}

// Tied weights are the reason: they may be most of a model.
void merge_constants(Graph& g) {
  std::unordered_multimap<size_t, ValueId> seen;  // by hash
  std::vector<ValueId> first(g.values.size());
  bool found = false;
  for (size_t v = 0; v < g.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    first[v] = id;
    const Tensor& t = g.values[v].constant;
    if (!t.defined()) continue;
    const size_t hash = std::hash<std::string_view>()(bytes_of(t));
    const auto [begin, end] = seen.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& other) {
      const Tensor& u = constant_of(g, other.second);
      return t.dtype() == u.dtype() && t.shape() == u.shape() &&
             (t.data() == u.data() || bytes_of(t) == bytes_of(u));
    });
    if (same == end) {
      seen.emplace(hash, id);
    } else {
      first[v] = same->second;
      found = true;
    }
  }
  if (!found) return;
  for (Node& n : g.nodes)
    for (ValueId& v : n.inputs)
      if (v >= 0) v = first[static_cast<size_t>(v)];
}

}  // namespace

void merge_equal_nodes(Graph& g, const EvaluateFn&) {
  merge_constants(g);
  Forwarding forwarding(g);
  std::vector<bool> keep(g.nodes.size(), true);
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    forwarding.resolve(g.nodes[i]);
    // Identity is kept for the name of an output; bodies aren't compared.
    if (g.nodes[i].op == "Identity" || !g.nodes[i].bodies.empty()) continue;
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
