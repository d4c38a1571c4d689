// Scan: spelled out, or a loop of the plan (build_loops.cpp says when).
#include <fmt/format.h>

#include <algorithm>

#include "src/graph/build_parts.h"
#include "src/graph/builder.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"

namespace nestor {

// What a Scan says beside its inputs and outputs.
struct Builder::ScanForm {
  size_t states = 0, scanned = 0, made = 0;
  std::vector<int64_t> axes, backward, out_axes, out_backward;
  Dim trips = -1;
};

std::optional<Builder::ScanForm> Builder::read_scan(const ModelNode& mn, const Node& n) {
  const auto body = mn.graphs.find("body");
  const int64_t scanned = attr_of<int64_t>(mn, "num_scan_inputs", 0);
  const auto count = static_cast<int64_t>(mn.inputs.size()), states = count - scanned;
  const auto no = [&](const std::string& why, const std::string& hint = "") {
    refuse(mn, why, hint);
    return std::nullopt;
  };
  if (body == mn.graphs.end() || scanned < 1 || states < 0 ||
      static_cast<int64_t>(body->second->inputs.size()) != count ||
      body->second->outputs.size() != mn.outputs.size() || static_cast<int64_t>(mn.outputs.size()) < states)
    return no("its body doesn't fit its inputs and outputs");
  const auto list = [&](const char* name, size_t size) {
    auto values = attr_of<std::vector<int64_t>>(mn, name, {});
    values.resize(size, 0);
    return values;
  };
  ScanForm f;
  f.states = static_cast<size_t>(states), f.scanned = static_cast<size_t>(scanned);
  f.made = mn.outputs.size() - f.states;
  f.axes = list("scan_input_axes", f.scanned), f.backward = list("scan_input_directions", f.scanned);
  f.out_axes = list("scan_output_axes", f.made), f.out_backward = list("scan_output_directions", f.made);
  for (size_t i = 0; i < f.scanned; ++i) {
    const ValueId v = f.states + i < n.inputs.size() ? n.inputs[f.states + i] : -1;
    if (v < 0) return no(fmt::format("its scan input {} is left out", i));
    const TensorType& type = value_of(g_, v).type;
    const auto rank = static_cast<int64_t>(type.shape.size());
    if (f.axes[i] < -rank || f.axes[i] >= rank)
      return no(fmt::format("axis {} of scan input {} is outside of {}", f.axes[i], i, to_string(type)));
    if (f.axes[i] < 0) f.axes[i] += rank;
    const Dim& size = type.shape[static_cast<size_t>(f.axes[i])];
    if (i > 0 && !must_equal(size, f.trips, "scan inputs are equally long"))
      return no(
          fmt::format("its scan inputs differ in length: {} and {}", to_string(f.trips), to_string(size)));
    if (i == 0) f.trips = size;
  }
  return f;
}

// Of opset 8: for each of a batch, whose inputs and outputs lie along the first dimension, a Scan of opset 9.
void Builder::build_scan_of_batch(const ModelNode& mn) {
  if (mn.inputs.empty() || !mn.inputs[0].empty())
    return refuse(mn, "its sequences have lengths of their own, which isn't supported",
                  "export it at opset 9, or leave `sequence_lens` out");
  constexpr int kOpset = 9;
  ModelNode each = mn, batch = mn;
  ModelGraph body;
  const auto rename = [&](std::string& name) {
    if (!name.empty()) name = fresh_(name + ".one");
  };
  each.inputs.erase(each.inputs.begin());
  batch.inputs = each.inputs;
  each.opset = batch.opset = kOpset;
  for (std::string& name : each.inputs) {
    rename(name);
    body.inputs.push_back({name, DType::f32, {}, false, false});
  }
  for (std::string& name : each.outputs) {
    name = fresh_((name.empty() ? some_output(mn) : name) + ".one");
    body.outputs.push_back({name, DType::f32, {}, false, false});
  }
  each.attrs.erase("directions");
  if (const auto it = mn.attrs.find("directions"); it != mn.attrs.end())
    each.attrs["scan_input_directions"] = it->second;
  batch.attrs = {{"num_scan_inputs", static_cast<int64_t>(batch.inputs.size())}};
  body.nodes = {std::move(each)};
  batch.graphs = {{"body", std::make_shared<ModelGraph>(std::move(body))}};
  steps_.back() = {};
  branches_ = true;
  add_inner({std::move(batch)});
}

void Builder::build_scan(const ModelNode& mn) {
  Node n;
  if (!resolve_inputs(mn, n)) return;
  if (opset_of(mn) < 9) return build_scan_of_batch(mn);
  const std::optional<ScanForm> form = read_scan(mn, n);
  if (!form) return;
  const ModelGraph& body = *mn.graphs.at("body");
  std::string why, hint;
  const auto few = [&](int64_t most) { return form->trips.known() && are_few(form->trips, body, most); };
  if (options_.control_flow && !few(kFewNodes) && !build_long_scan(mn, n, *form, why, hint)) return;
  if (!why.empty() && !few(kMostNodes)) return refuse(mn, why, hint);
  if (!form->trips.known())
    return refuse(mn, fmt::format("it has {} iterations, which runs decide", to_string(form->trips)),
                  "a CPU as target, or " + g_.symbols->hint(form->trips.expr()));
  if (few_copies(mn, body, form->trips)) spell_out_scan(mn, *form);
}

// A loop of the plan; true: it can't be one, and `why`. Scanned along the first dimension: others are
// transposed, before and behind.
bool Builder::build_long_scan(const ModelNode& mn, const Node& n, const ScanForm& f, std::string& why,
                              std::string& hint) {
  const ModelGraph& body = *mn.graphs.at("body");
  std::vector<BodyInput> inputs = {{fresh_(some_output(mn) + ".iteration"), {DType::i64, {}}, {}}};
  std::vector<ValueId> read = {f.trips.known() ? -1 : add_size(mn, f.trips), -1};
  for (size_t i = 0; i < f.states; ++i) {
    read.push_back(n.inputs[i]);
    inputs.push_back({body.inputs[i].name, value_of(g_, n.inputs[i]).type, {}});
  }
  for (size_t i = 0; i < f.scanned; ++i) {
    const size_t at = f.states + i;
    read.push_back(axis_first(mn, mn.inputs[at], f.axes[i]));
    TensorType part = value_of(g_, read.back()).type;
    part.shape.erase(part.shape.begin());
    inputs.push_back({body.inputs[at].name, std::move(part), {}});
  }
  std::vector<bool> wanted(body.outputs.size(), true);
  for (size_t k = f.states; k < wanted.size(); ++k) wanted[k] = read_.count(mn.outputs[k]) > 0;
  // A condition that always holds stands before the outputs.
  ModelGraph conditional = body;
  const std::string always = fresh_(some_output(mn) + ".always");
  conditional.initializers.emplace_back(always, number(1, DType::boolean));
  conditional.outputs.insert(conditional.outputs.begin(), ModelValue{always, DType::boolean, {}});
  wanted.insert(wanted.begin(), true);
  std::optional<Body> made = build_body(mn, conditional, inputs, wanted);
  if (!made) return false;
  const std::vector<ValueId> states(n.inputs.begin(), n.inputs.begin() + static_cast<long>(f.states));
  why = made->refused.empty() ? unlike_states(made->graph, states) : "in its body: " + made->refused;
  hint = made->hint;
  if (!made->sizes.empty()) {
    unbounded_.insert(made->sizes.begin(), made->sizes.end());
    refuse(mn, why, hint);
    return false;
  }
  if (!why.empty()) return true;
  const int64_t trips = f.trips.known() ? static_cast<int64_t>(f.trips) : -1;
  LoopForm form{static_cast<int64_t>(f.states), static_cast<int64_t>(f.scanned), trips, 0, f.backward};
  std::vector<std::string> results(mn.outputs.begin(), mn.outputs.begin() + static_cast<long>(f.states));
  std::vector<std::pair<std::string, size_t>> moved;  // what is made elsewhere than along the first dimension
  for (size_t k = 0; k < f.made; ++k) {
    if (!wanted[1 + f.states + k]) continue;
    form.backward.push_back(f.out_backward[k]);
    results.push_back(mn.outputs[f.states + k]);
    if (f.out_axes[k] == 0) continue;
    moved.emplace_back(results.back(), results.size());
    results.back() = fresh_(results.back() + ".first");
    define(results.back(), "made by " + to_string(label_of(mn)), {}, false);
    read_.insert(results.back());
  }
  steps_.back() = {};
  append_loop(mn, std::move(*made), read, form, results);
  for (const auto& [name, count] : moved) {
    const std::string& first = results[count - 1];
    const size_t k =
        static_cast<size_t>(std::find(mn.outputs.begin(), mn.outputs.end(), name) - mn.outputs.begin()) -
        f.states;
    const auto rank = static_cast<int64_t>(value_of(g_, find(first)).type.shape.size());
    const int64_t to = f.out_axes[k] < 0 ? f.out_axes[k] + rank : f.out_axes[k];
    std::vector<int64_t> perm;
    for (int64_t d = 1; d < rank; ++d) perm.push_back(d);
    if (to < 0 || to >= rank) {
      refuse(mn, fmt::format("axis {} of its output `{}` is outside of {} dimensions", to, name, rank));
      continue;
    }
    perm.insert(perm.begin() + to, 0);
    add_inner({plain(mn, "Transpose", {first}, name, {{"perm", perm}})});
  }
  return false;
}

// The value with that dimension before the others.
ValueId Builder::axis_first(const ModelNode& mn, const std::string& name, int64_t axis) {
  if (axis == 0) return find(name);
  const auto rank = static_cast<int64_t>(value_of(g_, find(name)).type.shape.size());
  std::vector<int64_t> perm = {axis};
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis) perm.push_back(d);
  const std::string first = fresh_(name + ".first");
  read_.insert(first);
  add_inner({plain(mn, "Transpose", {name}, first, {{"perm", perm}})});
  return find(first);
}

void Builder::spell_out_scan(const ModelNode& mn, const ScanForm& f) {
  const ModelGraph& body = *mn.graphs.at("body");
  std::vector<std::string> state(mn.inputs.begin(), mn.inputs.begin() + static_cast<long>(f.states));
  std::vector<std::vector<std::string>> elements(f.made);
  steps_.back() = {};
  branches_ = true;
  const int64_t trips = f.trips;
  for (int64_t t = 0; t < trips; ++t) {
    Renaming names;
    std::vector<ModelNode> slices;
    for (size_t i = 0; i < state.size(); ++i) names[body.inputs[i].name] = state[i];
    for (size_t i = 0; i < f.scanned; ++i) {
      const std::string &whole = mn.inputs[f.states + i], part = fresh_(whole + ".part"),
                        place = add_number(mn, f.backward[i] ? trips - 1 - t : t, DType::i64);
      slices.push_back(plain(mn, "Gather", {whole, place}, part, {{"axis", f.axes[i]}}));
      read_.insert(part);
      names[body.inputs[f.states + i].name] = part;
    }
    add_inner(slices);
    const std::vector<std::string> out = inline_body(mn, body, names);
    std::copy(out.begin(), out.begin() + static_cast<long>(f.states), state.begin());
    for (size_t k = 0; k < f.made; ++k) elements[k].push_back(out[f.states + k]);
  }
  give_states(mn, state);
  for (size_t k = 0; k < f.made; ++k) {
    int64_t axis = f.out_axes[k];
    if (axis < 0 && !elements[k].empty())
      if (const ValueId e = find(elements[k][0]); e >= 0)
        axis += static_cast<int64_t>(value_of(g_, e).type.shape.size()) + 1;
    join_elements(mn, f.states + k, elements[k], axis, f.out_backward[k] != 0);
  }
}

}  // namespace nestor
