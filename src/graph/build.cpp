// From a Model, as the file says it, to a Graph whose every value has a type. All checking of models is here,
// whatever they were read from, and it goes on after a problem: one error lists everything that has to be
// changed. What no output depends on isn't looked at.
//
// Shapes may depend on computed values (Shape -> Gather -> Concat -> Reshape). So nodes are visited in
// topological order, and one whose inputs are all known and small is evaluated on the spot; it never becomes
// a node of the graph.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "nestor/nearest.h"
#include "src/graph/builder.h"
#include "src/graph/edit.h"
#include "src/graph/elements.h"
#include "src/graph/found_sizes.h"
#include "src/graph/inline_functions.h"
#include "src/graph/passes.h"
#include "src/graph/tensor_limits.h"
#include "src/graph/unfolded.h"

namespace nestor {

namespace {

constexpr double kSmallWork = 3e7;  // of all constants that are interpreted here

}  // namespace

Builder::Builder(const Model& model, const BuildOptions& options, bool fold)
    : Builder(model, options, fold, nullptr) {}

Builder::Builder(const Model& model, const BuildOptions& options, bool fold, const Around* around)
    : m_(model),
      options_(options),
      evaluate_(options.evaluate ? options.evaluate : evaluate_by_interpreter),
      fold_(fold),
      around_(around),
      problems_(model.file),
      inputs_(model, options, problems_),
      fresh_(all_names(model)) {
  for (const auto* list : {&m_.values, &m_.outputs})
    for (const ModelValue& v : *list) declared_[v.name] = &v;
}

Graph Builder::run() {
  g_.name = m_.name.empty() ? "model" : m_.name;
  const std::vector<bool> live = live_nodes(m_);
  std::vector<ModelNode> nodes;
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i]) nodes.push_back(m_.nodes[i]);
  for (const ModelNode& n : nodes)
    for (std::string& name : reads_of(n)) read_.insert(std::move(name));
  for (const ModelValue& v : m_.outputs) read_.insert(v.name);
  add_inputs();
  g_.symbols = around_ ? around_->symbols : inputs_.symbols();
  if (!g_.symbols && (may_find_sizes(m_) || !options_.open.empty())) g_.symbols = std::make_shared<Symbols>();
  add_initializers(m_);
  budget_.emplace(g_, kSmallWork);
  check_constants();
  for (const ModelNode& n : nodes) add_outputs(n);
  add_graph_outputs();
  const std::vector<ValueId> given = g_.inputs;
  for (const ValueId v : given) take_for_sizes(v);
  add_in_order(nodes);
  check_declared();
  if (!around_)
    for (const std::string& name : inputs_.not_mentioned())
      if (!finds_size(g_, name) && !(options_.open.count(name) && problems_.any()))  // perhaps not yet
        problems_.add(
            fmt::format("no input has a dimension {}, and no integer of that name is computed", name));
  if (branches_) drop_dead_steps();
  if (g_.symbols && (!around_ || around_->branch)) g_.symbols->close();
  const auto is_number = [&](const Symbol& s) { return s.bound && options_.found.count(s.name); };
  if (!around_ && g_.symbols && !bodies_find_sizes(g_) &&
      std::all_of(g_.symbols->all().begin(), g_.symbols->all().end(), is_number))
    g_.symbols = nullptr;
  problems_.throw_if_any({unknown_inputs_.begin(), unknown_inputs_.end()},
                         {unbounded_.begin(), unbounded_.end()});
  if (branches_)
    remove_dead_nodes(g_, evaluate_);
  else
    compact(g_, std::vector<bool>(g_.nodes.size(), true));
  if (g_.symbols) write_sizes(g_);
  if (!disagree_.empty() && options_.warn) {
    constexpr size_t kShown = 3;
    const size_t more = disagree_.size() - std::min(disagree_.size(), kShown);
    disagree_.resize(disagree_.size() - more);
    options_.warn(fmt::format("{}: the shapes that the nodes make are used, not those declared: {}{}",
                              m_.file, fmt::join(disagree_, "; "),
                              more ? fmt::format("; and {} more", more) : ""));
  }
  return std::move(g_);
}

// A value of a name; a second one is a problem, and only the first counts.
ValueId Builder::define(const std::string& name, const std::string& what, TensorType type, bool known) {
  const auto [it, fresh] = by_name_.try_emplace(name, static_cast<ValueId>(g_.values.size()));
  if (!fresh) {
    problems_.add(fmt::format("two values are named `{}`: {} and {}", name, defined_by_[name], what));
    return -1;
  }
  defined_by_[name] = what;
  known_.push_back(known);
  g_.values.push_back({name, std::move(type), {}, -1});
  return it->second;
}

ValueId Builder::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

// ---- Inputs and initializers

void Builder::add_inputs() {
  if (around_) {
    for (const Value& v : around_->inputs) {
      const ValueId id = define(v.name, "an input", v.type, true);
      if (id < 0) continue;
      value_of(g_, id).elements = v.elements;
      if (v.elements.empty()) g_.inputs.push_back(id);
    }
    return;
  }
  std::set<std::string> initialized;
  for (const auto& entry : m_.initializers) initialized.insert(entry.first);
  std::vector<std::string> left_out;
  for (const ModelValue& v : m_.inputs) {
    if (initialized.count(v.name)) continue;  // ONNX lists initializers among the inputs: their defaults
    const bool read = read_.count(v.name) > 0;
    if (!read && !inputs_.has_type(v))
      left_out.push_back('`' + v.name + '`');
    else
      add_input(v, read);
  }
  inputs_.finish();
  if (!left_out.empty() && options_.warn)
    options_.warn(fmt::format("{}: no output depends on the input{} {}, which {} left out", m_.file,
                              left_out.size() > 1 ? "s" : "", fmt::join(left_out, ", "),
                              left_out.size() > 1 ? "are" : "is"));
}

void Builder::add_input(const ModelValue& v, bool read) {
  const std::optional<TensorType> type = inputs_.type_of(v);
  const ValueId id = define(v.name, "an input", type.value_or(TensorType{v.dtype, {}}), type.has_value());
  if (id < 0) return;
  const auto source = options_.constants.find(v.name);
  if (source == options_.constants.end()) {
    g_.inputs.push_back(id);
    return;
  }
  if (!type) return;
  const auto tensor = bound(source->second, *type);
  known_[static_cast<size_t>(id)] = tensor.has_value();  // else what reads it isn't blamed, too
  if (tensor && read) value_of(g_, id).constant = *tensor;
}

// What --const gives for a value of that type; nullopt after a problem.
std::optional<Tensor> Builder::bound(const TensorSource& source, const TensorType& type) {
  try {
    return source.exactly(type);
  } catch (const UserError& e) {
    problems_.add(e.diagnostic().message, e.diagnostic().hint);
    return std::nullopt;
  }
}

void Builder::check_constants() {
  std::vector<std::string> names;
  for (const ModelValue& v : m_.inputs) names.push_back(v.name);
  for (const auto& entry : options_.constants) {
    const bool weight = std::any_of(m_.initializers.begin(), m_.initializers.end(),
                                    [&](const auto& i) { return i.first == entry.first; });
    if (weight || std::find(names.begin(), names.end(), entry.first) != names.end()) continue;
    problems_.add(fmt::format("{}: the model has no input or weight `{}`", entry.second.what(), entry.first),
                  fmt::format("its inputs are {}", fmt::join(names, ", ")));
  }
}

// Of the model, or of a branch that is inlined.
void Builder::add_initializers(const ModelGraph& g) {
  std::map<std::string, const ModelValue*> inputs;
  for (const ModelValue& v : g.inputs) inputs[v.name] = &v;
  for (const auto& [name, tensor] : g.initializers) {
    const auto it = inputs.find(name);
    if (it != inputs.end() && it->second->typed && it->second->refused.empty() &&
        it->second->dtype != tensor.dtype())
      problems_.add(fmt::format("initializer `{}` is {}, the input of that name is {}", name,
                                name_of(tensor.dtype()), name_of(it->second->dtype)));
    const TensorType type{tensor.dtype(), tensor.shape()};
    const std::string why = refusal_of(type);
    if (!why.empty()) problems_.add(fmt::format("initializer `{}` {}", name, why));
    const auto source = options_.constants.find(name);
    const std::optional<Tensor> value =
        source == options_.constants.end() ? tensor : bound(source->second, type);
    const ValueId v = define(name, "an initializer", type, why.empty() && value);
    if (v >= 0 && value && read_.count(name)) value_of(g_, v).constant = *value;
  }
  for (const auto& [name, what] : g.refused_initializers) {
    if (!read_.count(name)) continue;
    problems_.add(fmt::format("initializer `{}` is {}, which isn't supported", name, what));
    define(name, "an initializer", {}, false);
  }
}

// ---- Outputs

void Builder::add_outputs(const ModelNode& n) {
  for (const std::string& name : n.outputs)
    if (!name.empty()) define(name, "made by " + to_string(label_of(n)), {}, false);
}

void Builder::add_graph_outputs() {
  if (m_.outputs.empty()) problems_.add("the model has no outputs");
  std::set<ValueId> listed;
  for (const ModelValue& v : m_.outputs) {
    const ValueId id = find(v.name);
    if (!v.refused.empty())
      problems_.add(fmt::format("output `{}` is {}, which isn't supported", v.name, v.refused));
    if (id < 0)
      problems_.add(fmt::format("output `{}` is made by no node", v.name), nearest_value(v.name));
    else if (!listed.insert(id).second)
      problems_.add(fmt::format("output `{}` is listed twice", v.name));
    else
      g_.outputs.push_back(id);
  }
}

std::string Builder::nearest_value(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& entry : by_name_) names.push_back(entry.first);
  return did_you_mean(name, names);
}

// ---- The end

// What the nodes make holds. A type that the file says otherwise is refused, as it is everywhere; shapes are
// often those of another export.
void Builder::check_declared() {
  for (const auto& [name, v] : declared_) {
    const ValueId id = find(name);
    if (id < 0 || !is_known(id) || !v->typed || !v->refused.empty()) continue;
    const TensorType& type = value_of(g_, id).type;
    if (v->dtype != type.dtype && is_output(g_, id))
      problems_.add(fmt::format("output `{}` is declared as {}, the nodes make {}", name, name_of(v->dtype),
                                to_string(type)));
    if (!v->ranked) continue;
    bool equal = v->shape.size() == type.shape.size();
    for (size_t d = 0; equal && d < v->shape.size(); ++d)
      if (const auto size = inputs_.size_of(v->shape[d]))
        equal = type.shape[d] == *size || !type.shape[d].known();
    if (!equal)
      disagree_.push_back(
          fmt::format("`{}` is declared with {}, it is {}", name, declared_shape(*v), to_string(type)));
  }
}

// Once the branches are chosen, less may be read than seemed: problems of the rest are none.
void Builder::drop_dead_steps() {
  std::vector<bool> read(g_.values.size(), false), dropped(steps_.size(), false);
  for (ValueId v : g_.outputs) read[static_cast<size_t>(v)] = true;
  for (size_t i = steps_.size(); i-- > 0;) {
    const Step& s = steps_[i];
    dropped[i] = !s.makes.empty() && std::none_of(s.makes.begin(), s.makes.end(),
                                                  [&](ValueId v) { return read[static_cast<size_t>(v)]; });
    if (!dropped[i])
      for (ValueId v : s.reads) read[static_cast<size_t>(v)] = true;
  }
  problems_.drop_steps(dropped);
}

namespace {

Graph build_once(const Model& model, const BuildOptions& options, bool fold) {
  if (model.functions.empty()) return Builder(model, options, fold).run();
  return Builder(inline_functions(model), options, fold).run();
}

// Where all sizes that values decide are bounded, those that the model turns out to need are.
Graph build(const Model& model, const BuildOptions& options, bool fold) {
  const auto all = options.open.find(kAllFoundSizes);
  if (all == options.open.end()) return build_once(model, options, fold);
  BuildOptions known = options;
  known.open.erase(kAllFoundSizes);
  while (true) try {
      return build_once(model, known, fold);
    } catch (const NeedsValues& e) {
      bool more = false;
      for (const std::string& name : e.sizes) more = known.open.emplace(name, all->second).second || more;
      if (!more) throw;
    }
}

}  // namespace

Graph build_graph(const Model& model, const BuildOptions& options) {
  return build(model, options, true);
}

Graph build_unfolded(const Model& model, const BuildOptions& options) {
  return build(model, options, false);
}

}  // namespace nestor
