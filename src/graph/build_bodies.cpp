// Loops and branches that stay in the graph, as nodes with bodies (control_flow.h). A body is built as a
// model of its own is, whose inputs are what it reads: the iteration's number, states, parts of what is
// scanned, and values of the graph around it. So everything that a model may have, a body may have, too.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/graph/build_parts.h"
#include "src/graph/builder.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"
#include "src/graph/found_sizes.h"

namespace nestor {

namespace {

// Its message with what a message of several problems has in notes.
std::string told_in_one(const Diagnostic& d) {
  return d.notes.empty() ? d.message : fmt::format("{}", fmt::join(d.notes, "; "));
}

}  // namespace

// The body with those inputs, of which the values outside that it reads are the last; its outputs are those
// that are wanted, each a value of its own. nullopt: the type of something that it reads isn't known.
std::optional<Builder::Body> Builder::build_body(const ModelNode& mn, const ModelGraph& body,
                                                 const std::vector<BodyInput>& inputs,
                                                 const std::vector<bool>& wanted, bool branch) {
  constexpr int kDeepest = 12;  // a body is read once, and once more where it is spelled out
  Model m;
  Body out;
  Around around{around_ ? around_->depth + 1 : 1, g_.symbols, branch, {}};
  if (branch && g_.symbols) around.symbols = std::make_shared<Symbols>(*g_.symbols);
  if (around.depth > kDeepest) {
    out.refused = fmt::format("loops and branches are in each other more than {} deep", kDeepest);
    return out;
  }
  m.file = m_.file;
  m.name = some_output(mn) + (body.name.empty() ? "" : "." + body.name);
  m.opsets = m_.opsets;
  m.initializers = body.initializers;
  m.refused_initializers = body.refused_initializers;
  m.nodes = body.nodes;
  for (const BodyInput& in : inputs) {
    m.inputs.push_back({in.name, in.type.dtype, {}});
    if (in.known.defined())
      m.initializers.emplace_back(in.name, in.known);
    else
      around.inputs.push_back({in.name, in.type, {}, -1});
  }
  ModelNode alone;
  auto only = std::make_shared<ModelGraph>(body);
  only->inputs = m.inputs;
  alone.graphs["body"] = std::move(only);
  for (const std::string& name : reads_of(alone)) {
    const ValueId v = find(name);
    if (v < 0) continue;
    if (!is_known(v)) return std::nullopt;
    const Value& value = value_of(g_, v);
    if (value.constant.defined()) {
      m.initializers.emplace_back(name, value.constant);
      continue;
    }
    m.inputs.push_back({name, value.type.dtype, {}});
    around.inputs.push_back({name, value.type, {}, -1, value.elements});
    around.inputs.back().type.shape = in_symbols(value.type.shape, around.symbols);
    if (value.elements.empty()) out.captured.push_back(v);
  }
  std::set<std::string> given;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    if (!wanted[k]) continue;
    ModelValue v;
    v.name = body.outputs[k].name;
    v.typed = v.ranked = false;
    if (!given.insert(v.name).second) {
      const std::string again = fresh_(v.name + ".again");
      m.nodes.push_back(plain(mn, "Identity", {v.name}, again));
      v.name = again;
    }
    m.outputs.push_back(std::move(v));
  }
  BuildOptions options = options_;
  options.constants.clear();
  options.shapes.clear();
  options.dims.clear();  // all inputs have types
  try {
    out.graph = Builder(m, options, fold_, &around).run();
  } catch (const NeedsValues& e) {
    out.refused = told_in_one(e.diagnostic());  // its hint names what the body reads: say what is behind that
    for (const std::string& name : e.inputs)
      if (const ValueId v = find(name); v >= 0)
        if (const std::string hint = ask_for(v); !hint.empty()) out.hint = hint;
    out.sizes = e.sizes;
    out.hint = either(out.hint, how_to_bound(e.sizes));
  } catch (const UserError& e) {
    out.refused = told_in_one(e.diagnostic());
    out.hint = e.diagnostic().hint;
  }
  return out;
}

// Gives output k of the model's node that type, and its value to the node.
ValueId Builder::made_by_body(const std::string& name, const TensorType& type) {
  if (name.empty() || !read_.count(name)) return -1;
  const ValueId v = find(name);
  if (v < 0) return -1;
  value_of(g_, v).type = type;
  known_[static_cast<size_t>(v)] = true;
  return v;
}

void Builder::append_with_bodies(Node n) {
  branches_ = true;
  for (ValueId v : n.outputs)
    if (v >= 0) value_of(g_, v).producer = static_cast<int>(g_.nodes.size());
  g_.nodes.push_back(std::move(n));
}

// ---- Branches

// A side that is refused, mostly since it isn't for these sizes, ends a run that takes it.
void Builder::build_branch(const ModelNode& mn, ValueId condition, const ModelGraph& then_branch,
                           const ModelGraph& else_branch) {
  std::vector<bool> wanted;
  for (const std::string& name : mn.outputs) wanted.push_back(!name.empty() && read_.count(name));
  Node n{"If", mn.name, 1, {condition}, {}, {}, "nestor"};
  std::vector<Body> sides;
  for (const ModelGraph* branch : {&then_branch, &else_branch}) {
    if (branch->outputs.size() != mn.outputs.size())
      return refuse(mn, fmt::format("it has {} outputs, its branch `{}` has {}", mn.outputs.size(),
                                    branch->name, branch->outputs.size()));
    std::optional<Body> body = build_body(mn, *branch, {}, wanted, true);
    if (!body) return;
    if (!body->refused.empty()) {
      body->refused = "in its branch `" + branch->name + "`: " + body->refused;
      body->captured.clear();
    }
    sides.push_back(std::move(*body));
  }
  if (!sides[0].refused.empty() && !sides[1].refused.empty()) {
    for (const Body& side : sides) unbounded_.insert(side.sizes.begin(), side.sizes.end());
    return refuse(mn, sides[0].refused, sides[0].hint.empty() ? ask_for(condition) : sides[0].hint);
  }
  for (const Body& side : sides) {
    n.inputs.insert(n.inputs.end(), side.captured.begin(), side.captured.end());
    if (side.refused.empty()) continue;
    n.attrs[&side == &sides[0] ? kNoThen : kNoElse] = to_string(label_of(mn)) + ": " + side.refused;
    if (options_.warn)
      options_.warn(fmt::format("{}: {}: a run ends with an error where it takes this one: {}", m_.file,
                                to_string(label_of(mn)), side.refused));
  }
  const Graph &first = sides[sides[0].refused.empty() ? 0 : 1].graph,
              &second = sides[sides[1].refused.empty() ? 1 : 0].graph;
  size_t made = 0;
  for (size_t k = 0; k < mn.outputs.size(); ++k) {
    if (!wanted[k]) continue;
    const auto type_in = [&](const Graph& g) {
      const TensorType& type = g.values[static_cast<size_t>(g.outputs[made])].type;
      return TensorType{type.dtype, in_symbols(type.shape, g_.symbols)};
    };
    if (type_in(first) != type_in(second)) {
      // Sizes decide: as the usual ones do, then, and all others must.
      if (const auto by_size = size_in(condition)) {
        n.outputs.clear();
        const bool taken = g_.symbols->decide(by_size->expr());
        steps_.back() = {};
        branches_ = true;
        return inline_branch(mn, taken ? then_branch : else_branch);
      }
      return refuse(mn,
                    fmt::format("its output `{}` is {} if the condition holds and {} if not, which isn't "
                                "supported where the condition is computed at run time",
                                mn.outputs[k], to_string(type_in(first)), to_string(type_in(second))),
                    ask_for(condition));
    }
    n.outputs.push_back(made_by_body(mn.outputs[k], type_in(first)));
    ++made;
  }
  for (Body& side : sides) n.bodies.push_back(std::make_shared<Graph>(std::move(side.graph)));
  append_with_bodies(std::move(n));
}

// ---- Loops

namespace {

// By value: whether it is known in every iteration, where the states in `states` are.
std::vector<bool> known_in(const Graph& body, const std::vector<bool>& states) {
  std::vector<bool> known(body.values.size(), false);
  for (size_t v = 0; v < known.size(); ++v) known[v] = body.values[v].constant.defined();
  known[static_cast<size_t>(body.inputs[0])] = true;
  for (size_t i = 0; i < states.size(); ++i) known[static_cast<size_t>(body.inputs[1 + i])] = states[i];
  for (const Node& n : body.nodes) {
    const bool all = !has_bodies(n) && std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
      return v < 0 || known[static_cast<size_t>(v)];
    });
    for (const ValueId v : n.outputs)
      if (v >= 0) known[static_cast<size_t>(v)] = all;
  }
  return known;
}

}  // namespace

// How many iterations the loop makes, where constants alone decide that: those parts of the body that its
// condition depends on are computed here. nullopt: more than `most`, or something else decides, too.
std::optional<int64_t> Builder::count_trips(const Graph& body, const std::vector<ValueId>& states,
                                            int64_t most) {
  if (is_constant(body, body.outputs[0]))
    return constant_of(body, body.outputs[0]).get_int(0) ? most : std::min<int64_t>(most, 1);
  std::vector<bool> fixed;
  for (const ValueId v : states) fixed.push_back(is_constant(g_, v));
  std::vector<bool> known;
  for (bool changed = true; changed;) {
    known = known_in(body, fixed);
    changed = false;
    for (size_t i = 0; i < fixed.size(); ++i)
      if (fixed[i] && !known[static_cast<size_t>(body.outputs[1 + i])]) changed = true, fixed[i] = false;
  }
  if (!known[static_cast<size_t>(body.outputs[0])]) return std::nullopt;
  std::vector<bool> wanted(body.values.size(), false);
  wanted[static_cast<size_t>(body.outputs[0])] = true;
  for (size_t i = 0; i < fixed.size(); ++i)
    if (fixed[i]) wanted[static_cast<size_t>(body.outputs[1 + i])] = true;
  std::vector<size_t> nodes;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    const Node& n = body.nodes[i];
    if (std::none_of(n.outputs.begin(), n.outputs.end(),
                     [&](ValueId v) { return v >= 0 && wanted[static_cast<size_t>(v)]; }))
      continue;
    nodes.push_back(i);
    for (const ValueId v : n.inputs)
      if (v >= 0) wanted[static_cast<size_t>(v)] = true;
  }
  std::vector<Tensor> state;
  for (size_t i = 0; i < fixed.size(); ++i) state.push_back(fixed[i] ? constant_of(g_, states[i]) : Tensor());
  double left = 1e7;  // runs of innermost statements
  for (int64_t t = 0; t < most; ++t) {
    if (t >= kMostCounted) return std::nullopt;
    Graph g = body;
    Value& iteration = value_of(g, g.inputs[0]);
    iteration.constant = number(t, DType::i64).reshaped(iteration.type.shape);
    for (size_t i = 0; i < fixed.size(); ++i)
      if (fixed[i]) value_of(g, g.inputs[1 + i]).constant = state[i];
    for (size_t i = nodes.size(); i-- > 0;)
      if (!evaluate_node(g, g.nodes[nodes[i]], evaluate_, &left)) return std::nullopt;
    if (!constant_of(g, g.outputs[0]).get_int(0)) return t + 1;
    for (size_t i = 0; i < fixed.size(); ++i)
      if (fixed[i]) state[i] = constant_of(g, g.outputs[1 + i]);
  }
  return most;
}

namespace {

// Whether two sizes may be one in most runs: sizes of other names may. A size and its double are one only if
// they are 0.
bool may_be_one(const Dim& a, const Dim& b) {
  bool share = a.known() || b.known();
  if (!share)
    for_each_expr(a.expr(), [&](const Expr& e) {
      if (const auto* ref = e.as<VarRef>()) share = share || uses_var(b.expr(), ref->var);
    });
  return !share || a.typical() == b.typical();
}

}  // namespace

// Why a body's states can't be carried from one iteration to the next; empty: they can.
std::string Builder::unlike_states(const Graph& body, const std::vector<ValueId>& states) const {
  for (size_t i = 0; i < states.size(); ++i) {
    const TensorType &before = g_.values[static_cast<size_t>(states[i])].type,
                     &after = body.values[static_cast<size_t>(body.outputs[1 + i])].type;
    bool alike = before.dtype == after.dtype && before.shape.size() == after.shape.size();
    for (size_t d = 0; alike && d < before.shape.size(); ++d)
      alike = may_be_one(before.shape[d], after.shape[d]) &&
              must_equal(before.shape[d], after.shape[d], "a loop's state keeps its shape");
    if (!alike)
      return fmt::format("its state {} is {} at first and {} after an iteration", i, to_string(before),
                         to_string(after));
  }
  return "";
}

// A Loop node with the body's graph. `results`: the names of what it makes, states first; "" for those that
// nobody reads.
void Builder::append_loop(const ModelNode& mn, Body body, const std::vector<ValueId>& inputs,
                          const LoopForm& form, const std::vector<std::string>& results) {
  Node n{"Loop", mn.name, 1, inputs, {}, attributes_of(form), "nestor"};
  n.inputs.insert(n.inputs.end(), body.captured.begin(), body.captured.end());
  const Dim length = known_trips(g_, n).value_or(form.limit);
  for (size_t k = 0; k < results.size(); ++k) {
    TensorType type = value_of(body.graph, body.graph.outputs[1 + k]).type;
    if (depends_on_found(body.graph, type.shape))
      return refuse(mn, fmt::format("its output `{}` is {} in an iteration, whose values decide that size: "
                                    "this isn't supported",
                                    results[k], to_string(type)));
    if (static_cast<int64_t>(k) >= form.states) type.shape.insert(type.shape.begin(), length);
    n.outputs.push_back(made_by_body(results[k], type));
  }
  n.bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
  append_with_bodies(std::move(n));
}

}  // namespace nestor
