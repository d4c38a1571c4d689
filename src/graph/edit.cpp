#include "src/graph/edit.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "nestor/ops.h"

namespace nestor {

Tensor constant_of_elements(const Value& v) {
  Tensor out(v.type.dtype, v.type.shape);
  for (size_t k = 0; k < v.elements.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    if (const auto number = as_int(v.elements[k]))
      out.set_int(at, *number);
    else if (const auto* real = v.elements[k].as<FloatImm>())
      out.set(at, real->value);
    else
      return {};
  }
  return out;
}

bool is_output(const Graph& g, ValueId v) {
  return std::find(g.outputs.begin(), g.outputs.end(), v) != g.outputs.end();
}

std::vector<int> count_uses(const Graph& g) {
  std::vector<int> uses(g.values.size(), 0);
  const auto count = [&](const std::vector<ValueId>& list) {
    for (ValueId v : list)
      if (v >= 0) ++uses[static_cast<size_t>(v)];
  };
  for (const Node& n : g.nodes) count(n.inputs);
  count(g.outputs);
  return uses;
}

void replace_reads(Graph& g, ValueId from, ValueId to) {
  for (Node& n : g.nodes) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
}

Forwarding::Forwarding(Graph& g) : g_(g), output_(g.values.size(), false), same_(g.values.size()) {
  for (ValueId v : g.outputs) output_[static_cast<size_t>(v)] = true;
  std::iota(same_.begin(), same_.end(), 0);
}

ValueId Forwarding::current(ValueId v) {
  const auto at = [this](ValueId i) -> ValueId& { return same_[static_cast<size_t>(i)]; };
  while (at(v) != v) v = at(v) = at(at(v));
  return v;
}

void Forwarding::resolve(Node& n) {
  for (ValueId& v : n.inputs)
    if (v >= 0) v = current(v);
}

bool Forwarding::forward(ValueId v, ValueId same) {
  same = current(same);
  if (!is_output(v)) {
    same_[static_cast<size_t>(v)] = same;
    return true;
  }
  const int maker = value_of(g_, same).producer;
  Node& second = g_.nodes[static_cast<size_t>(value_of(g_, v).producer)];
  if (maker < 0 || is_output(same)) {
    second = Node{"Identity", second.name, 13, {same}, {v}, {}, ""};
    return false;
  }
  // v's own node keeps its place but makes the now unused value.
  Node& first = g_.nodes[static_cast<size_t>(maker)];
  std::replace(first.outputs.begin(), first.outputs.end(), same, v);
  std::replace(second.outputs.begin(), second.outputs.end(), v, same);
  std::swap(value_of(g_, v).producer, value_of(g_, same).producer);
  same_[static_cast<size_t>(same)] = v;
  return true;
}

void Forwarding::finish() {
  for (Node& n : g_.nodes) resolve(n);
}

int64_t next_number(const Graph& g, const std::string& name) {
  int64_t next = 0;
  for (const Value& v : g.values) {
    if (!v.name.starts_with(name)) continue;
    const std::string_view rest = std::string_view(v.name).substr(name.size());
    int k = 0;
    if (rest.empty())
      next = std::max<int64_t>(next, 1);
    else if (rest[0] == '.' &&
             std::from_chars(rest.data() + 1, rest.data() + rest.size(), k).ptr == rest.data() + rest.size())
      next = std::max<int64_t>(next, int64_t{k} + 1);
  }
  return next;
}

std::string numbered(const std::string& name, int64_t number) {
  return number == 0 ? name : name + "." + std::to_string(number);
}

ValueId add_value(Graph& g, const std::string& name, TensorType type) {
  g.values.push_back({numbered(name, next_number(g, name)), std::move(type), {}, -1});
  return static_cast<ValueId>(g.values.size()) - 1;
}

ValueId add_constant(Graph& g, const std::string& name, Tensor t) {
  const ValueId v = add_value(g, name, {t.dtype(), t.shape()});
  value_of(g, v).constant = std::move(t);
  return v;
}

int64_t scale_axis(const Graph& g, const Node& n) {
  const OpContext ctx(g, n);
  const int64_t axis = ctx.get_int("axis", 1);
  return axis < 0 ? axis + static_cast<int64_t>(ctx.input(0).shape.size()) : axis;
}

void compact(Graph& g, const std::vector<bool>& keep) {
  std::vector<bool> used(g.values.size(), false);
  const auto mark = [&](const std::vector<ValueId>& list) {
    for (ValueId v : list)
      if (v >= 0) used[static_cast<size_t>(v)] = true;
  };
  std::vector<Node> nodes;
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (keep[i]) {
      mark(g.nodes[i].inputs);
      mark(g.nodes[i].outputs);
      nodes.push_back(std::move(g.nodes[i]));
    }
  mark(g.inputs);
  mark(g.outputs);

  std::vector<ValueId> renamed(g.values.size(), -1);
  std::vector<Value> values;
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (!used[v]) continue;
    renamed[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(g.values[v]));
  }
  g.values = std::move(values);
  const auto rename = [&](std::vector<ValueId>& list) {
    for (ValueId& v : list)
      if (v >= 0) v = renamed[static_cast<size_t>(v)];
  };
  rename(g.inputs);
  rename(g.outputs);
  for (Node& n : nodes) {
    rename(n.inputs);
    rename(n.outputs);
  }
  replace_nodes(g, std::move(nodes));
}

void replace_nodes(Graph& g, std::vector<Node> nodes) {
  g.nodes = std::move(nodes);
  for (Value& v : g.values) v.producer = -1;
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for (ValueId v : g.nodes[i].outputs)
      if (v >= 0) value_of(g, v).producer = static_cast<int>(i);
}

}  // namespace nestor
