// Loop, and what Scan (build_scan.cpp) has in common with it. Where the number of iterations is known when
// the graph is built and they are few, they are spelled out: the body's nodes once for each, which read what
// the iteration before left. What an iteration counts, or decides by sizes, is a constant in its nodes and
// folds with them; weights that it picks by its number are constants, too. Longer ones, and those whose end
// only run time knows, are loops of the plan (build_bodies.cpp). A body whose states change their shapes can
// only be spelled out.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "src/graph/build_parts.h"
#include "src/graph/builder.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"
#include "src/graph/growing_states.h"

namespace nestor {

namespace {

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

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

void Builder::give_states(const ModelNode& mn, const std::vector<std::string>& state) {
  std::vector<ModelNode> nodes;
  for (size_t i = 0; i < state.size(); ++i)
    if (!mn.outputs[i].empty()) nodes.push_back(plain(mn, "Identity", {state[i]}, mn.outputs[i]));
  add_inner(nodes);
}

bool Builder::few_copies(const ModelNode& mn, const ModelGraph& body, int64_t trips) {
  if (are_few(trips, body, kMostNodes)) return true;
  refuse(mn,
         fmt::format("{} iterations of {} nodes are too many: they are spelled out, {} nodes at most", trips,
                     count_nodes(body), kMostNodes),
         options_.control_flow ? "fewer iterations, or an operator that does them in one (LSTM, CumSum ...)"
                               : "a CPU as target, whose code may have loops around functions");
  return false;
}

// A value of its own whose element is that size.
ValueId Builder::add_size(const ModelNode& mn, const Dim& size) {
  const ValueId v = define(fresh_(some_output(mn) + ".trips"), "a size", {DType::i64, {}}, true);
  value_of(g_, v).elements = {size.expr()};
  return v;
}

// The number that a value is, where constants or sizes decide it.
std::optional<Dim> Builder::size_in(ValueId v) const {
  const std::vector<Expr> elements = known_elements(value_of(g_, v));
  if (elements.size() != 1) return std::nullopt;
  const auto number = as_int(elements[0]);
  return number ? Dim(*number) : Dim(elements[0], g_.symbols);
}

// How to make it a number; empty where sizes don't decide it.
std::string Builder::size_hint(ValueId v) const {
  const std::optional<Dim> size = size_in(v);
  return size && !size->known() ? g_.symbols->hint(size->expr()) : "";
}

// A value that decides about iterations; nothing after a refusal, where it is computed at run time.
std::optional<int64_t> Builder::known_number(const ModelNode& mn, ValueId v, const char* what) {
  const Value& value = value_of(g_, v);
  if (value.constant.defined() && value.constant.size() == 1) return value.constant.get_int(0);
  const std::string sizes = size_hint(v), hint = sizes.empty() ? ask_for(v) : sizes;
  refuse(mn,
         fmt::format("control flow isn't supported where {} is computed at run time{}", what,
                     options_.control_flow ? "" : ", on this target"),
         !hint.empty()           ? hint
         : options_.control_flow ? "a number of iterations that is known"
                                 : "a CPU as target");
  return std::nullopt;
}

// ---- Loop

void Builder::build_loop(const ModelNode& mn) {
  const auto it = mn.graphs.find("body");
  Node n;
  if (!resolve_inputs(mn, n)) return;
  n.inputs.resize(std::max<size_t>(mn.inputs.size(), 2), -1);
  if (it == mn.graphs.end() || mn.inputs.size() < 2 || it->second->inputs.size() != mn.inputs.size() ||
      it->second->outputs.size() != mn.outputs.size() + 1)
    return refuse(mn, "its body doesn't fit its inputs and outputs");
  const size_t states = mn.inputs.size() - 2;
  if (mn.outputs.size() < states) return refuse(mn, "it has fewer outputs than states");
  for (size_t i = 0; i < states; ++i)
    if (n.inputs[2 + i] < 0) return refuse(mn, fmt::format("its state {} is left out", i));
  const auto is_one = [&](ValueId v, DType t) {
    const TensorType& type = value_of(g_, v).type;
    return v < 0 || (type.dtype == t && product(type.shape) == 1);
  };
  if (!is_one(n.inputs[0], DType::i64)) return refuse(mn, "its number of iterations isn't one i64");
  if (!is_one(n.inputs[1], DType::boolean)) return refuse(mn, "its condition isn't one bool");
  if (options_.control_flow && build_without_growth(mn, n)) return;
  if (!options_.control_flow || build_long_loop(mn, n)) spell_out_loop(mn, n);
}

// A loop that would have to be one of the plan, but whose states grow; false: another one.
bool Builder::build_without_growth(const ModelNode& mn, const Node& n) {
  const auto most = n.inputs[0] < 0 ? std::nullopt : size_in(n.inputs[0]);
  if (most && most->known() && are_few(*most, *mn.graphs.at("body"), kFewNodes)) return false;
  std::vector<TensorType> types;
  for (size_t i = 2; i < n.inputs.size(); ++i) types.push_back(value_of(g_, n.inputs[i]).type);
  const auto made = without_growth(mn, types, fresh_);
  if (!made) return false;
  if (!most) {
    refuse(mn, "a state grows in each iteration, and only run time tells how many there are",
           ask_for_value_or_bounds(n.inputs[0]));
    return true;
  }
  std::vector<ModelNode> nodes = {made->loop};
  nodes.insert(nodes.end(), made->behind.begin(), made->behind.end());
  for (const ModelNode& node : nodes)
    for (std::string& name : reads_of(node)) read_.insert(std::move(name));
  add_inner(nodes);
  return true;
}

// How many iterations a loop that begins makes, most of them unless its condition ends it; nullopt: only run
// time tells.
std::optional<Dim> Builder::trips_of(const Graph& body, const std::vector<ValueId>& states, const Dim& most) {
  if (most.known()) {
    if (most <= 0) return 0;
    const auto counted = count_trips(body, states, most);
    return counted ? std::optional(Dim(*counted)) : std::nullopt;
  }
  if (!is_constant(body, body.outputs[0])) return std::nullopt;
  return constant_of(body, body.outputs[0]).get_int(0) != 0 ? max(most, 0) : max(min(most, 1), 0);
}

// A loop of the plan; true: it is few iterations, or can't be one but may be spelled out.
bool Builder::build_long_loop(const ModelNode& mn, const Node& n) {
  const ModelGraph& body = *mn.graphs.at("body");
  const std::vector<ValueId> states(n.inputs.begin() + 2, n.inputs.end());
  const bool scalar = !body.inputs[0].ranked || body.inputs[0].shape.size() != 1;
  const TensorType count{DType::i64, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{1}};
  std::vector<BodyInput> inputs = {{body.inputs[0].name, count, {}}};
  for (size_t i = 0; i < states.size(); ++i)
    inputs.push_back({body.inputs[2 + i].name, value_of(g_, states[i]).type, {}});
  inputs.push_back({body.inputs[1].name, {DType::boolean, {}}, number(1, DType::boolean)});
  std::vector<bool> wanted(body.outputs.size(), true);
  for (size_t k = 1 + states.size(); k < wanted.size(); ++k) wanted[k] = read_.count(mn.outputs[k - 1]) > 0;
  std::optional<Body> made = build_body(mn, body, inputs, wanted);
  if (!made) return false;
  std::string why =
      made->refused.empty() ? unlike_states(made->graph, states) : "in its body: " + made->refused;
  const auto number_of = [&](ValueId v, int64_t missing) {
    return v < 0 ? std::optional(Dim(missing)) : size_in(v);
  };
  const auto most = number_of(n.inputs[0], kEndless), begins = number_of(n.inputs[1], 1);
  if (!why.empty()) {
    if (most && most->known() && begins && begins->known() &&
        (made->sizes.empty() || are_few(*most, body, kFewNodes)))
      return true;
    unbounded_.insert(made->sizes.begin(), made->sizes.end());
    std::string hint = made->hint;
    for (const ValueId v : {n.inputs[0], n.inputs[1]})
      if (v >= 0 && !is_constant(g_, v)) hint = either(hint, size_in(v) ? size_hint(v) : ask_for(v));
    refuse(mn, why, hint);
    return false;
  }
  const TensorType& goes_on = value_of(made->graph, made->graph.outputs[0]).type;
  if (goes_on.dtype != DType::boolean || product(goes_on.shape) != 1) {
    refuse(mn,
           fmt::format("the condition that its body makes is {}, it must be one bool", to_string(goes_on)));
    return false;
  }
  std::optional<Dim> trips;
  if (most && begins && begins->known()) trips = trips_of(made->graph, states, *begins == 0 ? Dim(0) : *most);
  if (trips && *trips == kEndless) {
    refuse(mn, "it never ends: it has neither a number of iterations nor a condition that may fail");
    return false;
  }
  std::vector<std::string> results(mn.outputs.begin(), mn.outputs.begin() + static_cast<long>(states.size()));
  for (size_t k = states.size(); k < mn.outputs.size(); ++k)
    if (wanted[1 + k]) results.push_back(mn.outputs[k]);
  const bool makes = results.size() > states.size();
  const bool counted = trips && trips->known();
  if (counted && are_few(*trips, body, kFewNodes) && (*trips > 0 || !makes)) return true;
  if (!trips && makes) {
    refuse(mn,
           fmt::format("its output `{}` has an element for each iteration, and only run time tells how many "
                       "there are",
                       results[states.size()]),
           n.inputs[0] >= 0 ? ask_for(n.inputs[0]) : "");
    return false;
  }
  LoopForm form{static_cast<int64_t>(states.size()),
                0,
                counted ? static_cast<int64_t>(*trips) : -1,
                trips ? 0 : options_.max_trips,
                {}};
  form.backward.assign(results.size() - states.size(), 0);
  std::vector<ValueId> read = {n.inputs[0], n.inputs[1]};
  if (trips) read = {counted ? -1 : add_size(mn, *trips), -1};
  read.insert(read.end(), states.begin(), states.end());
  steps_.back() = {};
  append_loop(mn, std::move(*made), read, form, results);
  return false;
}

void Builder::spell_out_loop(const ModelNode& mn, const Node& n) {
  const ModelGraph& body = *mn.graphs.at("body");
  const size_t states = mn.inputs.size() - 2;
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
