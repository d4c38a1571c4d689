// Scan and Loop whose number of iterations is known when the graph is built: the body's nodes once for each,
// which read what the iteration before left. What an iteration counts, or decides by sizes, is a constant in
// its nodes and folds with them.
#include <fmt/format.h>

#include <algorithm>

#include "src/graph/builder.h"
#include "src/graph/edit.h"

namespace nestor {

namespace {

constexpr int64_t kMostNodes = 20000;  // of all iterations
constexpr int kOpset = 21;

template <class T>
T attr_of(const ModelNode& n, const char* name, T missing) {
  const auto it = n.attrs.find(name);
  const T* value = it == n.attrs.end() ? nullptr : std::get_if<T>(&it->second);
  return value ? *value : missing;
}

ModelNode plain(const ModelNode& of, const std::string& op, std::vector<std::string> inputs,
                const std::string& output, Attrs attrs = {}) {
  ModelNode n{op, "", of.name, std::move(inputs), {output}, std::move(attrs), {}};
  n.opset = kOpset;
  return n;
}

std::string some_output(const ModelNode& mn) {
  const auto made =
      std::find_if(mn.outputs.begin(), mn.outputs.end(), [](const auto& o) { return !o.empty(); });
  return made == mn.outputs.end() ? mn.op : *made;
}

Tensor number(int64_t value, DType type) {
  Tensor t(type, {});
  t.set_int(0, value);
  return t;
}

}  // namespace

// A copy of the body, whose inputs are called as `names` says; the names of its outputs.
std::vector<std::string> Builder::inline_body(const ModelNode& mn, const ModelGraph& body, Renaming names) {
  const std::string prefix = some_output(mn);
  const auto rename = [&](const std::string& name) {
    if (!name.empty() && !names.count(name)) names[name] = fresh_(fmt::format("{}.{}", prefix, name));
  };
  ModelGraph inner;
  for (const auto& [name, tensor] : body.initializers) {
    rename(name);
    inner.initializers.emplace_back(names[name], tensor);
  }
  for (const auto& [name, what] : body.refused_initializers) {
    rename(name);
    inner.refused_initializers[names[name]] = what;
  }
  for (const ModelNode& n : body.nodes)
    for (const std::string& name : n.outputs) rename(name);
  const std::vector<bool> live = live_nodes(body);
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i]) inner.nodes.push_back(renamed(body.nodes[i], names));
  for (const ModelNode& n : inner.nodes)
    for (std::string& name : reads_of(n)) read_.insert(std::move(name));
  std::vector<std::string> out;
  for (const ModelValue& v : body.outputs) {
    const auto it = names.find(v.name);
    out.push_back(it == names.end() ? v.name : it->second);
    read_.insert(out.back());
  }
  add_initializers(inner);
  add_inner(inner.nodes);
  return out;
}

std::string Builder::add_number(const ModelNode& mn, int64_t value, DType type) {
  const std::string name = fresh_(some_output(mn) + ".number");
  read_.insert(name);
  add_inner({plain(mn, "Constant", {}, name, {{"value", number(value, type)}})});
  return name;
}

// Elements that iterations gave, side by side along a new axis of output k.
void Builder::join_elements(const ModelNode& mn, size_t k, std::vector<std::string> elements, int64_t axis,
                            bool backward) {
  if (mn.outputs.at(k).empty()) return;
  if (elements.empty())
    return refuse(mn, fmt::format("output {} has no element, as there is no iteration", k));
  const std::string at = fresh_(some_output(mn) + ".axis");
  Tensor axes(DType::i64, {1});
  axes.set_int(0, axis);
  std::vector<ModelNode> nodes = {plain(mn, "Constant", {}, at, {{"value", axes}})};
  for (std::string& e : elements) {
    const std::string name = fresh_(e + ".element");
    nodes.push_back(plain(mn, "Unsqueeze", {e, at}, name));
    e = name;
  }
  if (backward) std::reverse(elements.begin(), elements.end());
  nodes.push_back(plain(mn, "Concat", elements, mn.outputs[k], {{"axis", axis}}));
  add_inner(nodes);
}

void Builder::build_scan(const ModelNode& mn) {
  const auto body = mn.graphs.find("body");
  const int64_t scanned = attr_of<int64_t>(mn, "num_scan_inputs", 0);
  Node n;
  if (!resolve_inputs(mn, n)) return;
  const auto count = static_cast<int64_t>(mn.inputs.size()), states = count - scanned;
  if (opset_of(mn) < 9)
    return refuse(mn, "Scan over a batch, of opset 8, isn't supported", "export it at opset 9");
  if (body == mn.graphs.end() || scanned < 1 || states < 0 ||
      static_cast<int64_t>(body->second->inputs.size()) != count ||
      body->second->outputs.size() != mn.outputs.size() || static_cast<int64_t>(mn.outputs.size()) < states)
    return refuse(mn, "its body doesn't fit its inputs and outputs");
  const auto list = [&](const char* name, size_t size) {
    auto values = attr_of<std::vector<int64_t>>(mn, name, {});
    values.resize(size, 0);
    return values;
  };
  const size_t made = mn.outputs.size() - static_cast<size_t>(states);
  const auto axes = list("scan_input_axes", static_cast<size_t>(scanned)),
             backward = list("scan_input_directions", static_cast<size_t>(scanned)),
             out_axes = list("scan_output_axes", made), out_backward = list("scan_output_directions", made);

  int64_t trips = -1;
  std::vector<int64_t> along;
  for (int64_t i = 0; i < scanned; ++i) {
    const TensorType& type = value_of(g_, n.inputs[static_cast<size_t>(states + i)]).type;
    const auto rank = static_cast<int64_t>(type.shape.size());
    int64_t axis = axes[static_cast<size_t>(i)];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return refuse(mn, fmt::format("scan input {} has no axis {}", i, axis));
    along.push_back(axis);
    const int64_t size = type.shape[static_cast<size_t>(axis)];
    if (trips >= 0 && size != trips)
      return refuse(mn, fmt::format("its scan inputs differ in length: {} and {}", trips, size));
    trips = size;
  }
  if (!few_copies(mn, *body->second, trips)) return;

  std::vector<std::string> state(mn.inputs.begin(), mn.inputs.begin() + static_cast<long>(states));
  std::vector<std::vector<std::string>> elements(made);
  steps_.back() = {};
  branches_ = true;
  for (int64_t t = 0; t < trips; ++t) {
    Renaming names;
    std::vector<ModelNode> slices;
    for (size_t i = 0; i < state.size(); ++i) names[body->second->inputs[i].name] = state[i];
    for (size_t i = 0; i < static_cast<size_t>(scanned); ++i) {
      const std::string &whole = mn.inputs[static_cast<size_t>(states) + i], part = fresh_(whole + ".part"),
                        place = add_number(mn, backward[i] ? trips - 1 - t : t, DType::i64);
      slices.push_back(plain(mn, "Gather", {whole, place}, part, {{"axis", along[i]}}));
      read_.insert(part);
      names[body->second->inputs[static_cast<size_t>(states) + i].name] = part;
    }
    add_inner(slices);
    const std::vector<std::string> out = inline_body(mn, *body->second, names);
    std::copy(out.begin(), out.begin() + static_cast<long>(states), state.begin());
    for (size_t k = 0; k < made; ++k) elements[k].push_back(out[static_cast<size_t>(states) + k]);
  }
  give_states(mn, state);
  for (size_t k = 0; k < made; ++k) {
    int64_t axis = out_axes[k];
    if (axis < 0 && !elements[k].empty())
      if (const ValueId e = find(elements[k][0]); e >= 0)
        axis += static_cast<int64_t>(value_of(g_, e).type.shape.size()) + 1;
    join_elements(mn, static_cast<size_t>(states) + k, elements[k], axis, out_backward[k] != 0);
  }
}

void Builder::give_states(const ModelNode& mn, const std::vector<std::string>& state) {
  std::vector<ModelNode> nodes;
  for (size_t i = 0; i < state.size(); ++i)
    if (!mn.outputs[i].empty()) nodes.push_back(plain(mn, "Identity", {state[i]}, mn.outputs[i]));
  add_inner(nodes);
}

bool Builder::few_copies(const ModelNode& mn, const ModelGraph& body, int64_t trips) {
  const auto nodes = static_cast<int64_t>(std::max<size_t>(body.nodes.size(), 1));
  if (trips <= kMostNodes / nodes) return true;
  refuse(mn,
         fmt::format("{} iterations of {} nodes are too many: they are spelled out, {} nodes at most", trips,
                     nodes, kMostNodes),
         "fewer iterations, or an operator that does them in one (LSTM, CumSum ...)");
  return false;
}

// A value that decides about iterations; nothing after a refusal, where it is computed at run time.
std::optional<int64_t> Builder::known_number(const ModelNode& mn, ValueId v, const char* what) {
  const Value& value = value_of(g_, v);
  if (value.constant.defined() && value.constant.size() == 1) return value.constant.get_int(0);
  const std::string hint = ask_for(v);
  refuse(mn, fmt::format("control flow isn't supported where {} is computed at run time", what),
         hint.empty() ? "a number of iterations that is known" : hint);
  return std::nullopt;
}

void Builder::build_loop(const ModelNode& mn) {
  const auto it = mn.graphs.find("body");
  Node n;
  if (!resolve_inputs(mn, n)) return;
  n.inputs.resize(std::max<size_t>(mn.inputs.size(), 2), -1);
  if (it == mn.graphs.end() || mn.inputs.size() < 2 || it->second->inputs.size() != mn.inputs.size() ||
      it->second->outputs.size() != mn.outputs.size() + 1)
    return refuse(mn, "its body doesn't fit its inputs and outputs");
  const ModelGraph& body = *it->second;
  const size_t states = mn.inputs.size() - 2;
  if (mn.outputs.size() < states) return refuse(mn, "it has fewer outputs than states");
  int64_t most = kMostNodes + 1;
  if (n.inputs[0] >= 0) {
    const auto trips = known_number(mn, n.inputs[0], "the number of iterations");
    if (!trips) return;
    most = std::max<int64_t>(*trips, 0);
  }
  bool going = true;
  if (n.inputs[1] >= 0) {
    const auto start = known_number(mn, n.inputs[1], "its condition");
    if (!start) return;
    going = *start != 0;
  }
  std::vector<std::string> state(mn.inputs.begin() + 2, mn.inputs.end());
  std::vector<std::vector<std::string>> elements(mn.outputs.size() - states);
  steps_.back() = {};
  branches_ = true;
  for (int64_t t = 0; going && t < most; ++t) {
    if (!few_copies(mn, body, t + 1)) return;
    Renaming names = {{body.inputs[0].name, add_number(mn, t, DType::i64)},
                      {body.inputs[1].name, add_number(mn, 1, DType::boolean)}};
    for (size_t i = 0; i < states; ++i) names[body.inputs[i + 2].name] = state[i];
    const std::vector<std::string> out = inline_body(mn, body, names);
    std::copy(out.begin() + 1, out.begin() + 1 + static_cast<long>(states), state.begin());
    for (size_t k = 0; k < elements.size(); ++k) elements[k].push_back(out[1 + states + k]);
    const ValueId condition = find(out[0]);
    if (condition < 0 || !is_known(condition)) return;  // said already
    if (t + 1 == most) break;
    const auto on = known_number(mn, condition, "its condition");
    if (!on) return;
    going = *on != 0;
  }
  give_states(mn, state);
  for (size_t k = 0; k < elements.size(); ++k) join_elements(mn, states + k, elements[k], 0, false);
}

}  // namespace nestor
