// From a Model, as the file says it, to a Graph whose every value has a type. All checking of models is here,
// whatever they were read from, and it goes on after a problem: one error lists everything that has to be
// changed.
//
// Shapes may depend on computed values (Shape -> Gather -> Concat -> Reshape). So nodes are visited in
// topological order, and one whose inputs are all known and small is evaluated on the spot; it never becomes
// a node of the graph.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "nestor/nearest.h"
#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/fold_budget.h"
#include "src/graph/problems.h"
#include "src/graph/sort.h"
#include "src/graph/spell_out.h"
#include "src/graph/spell_out_bytes.h"
#include "src/graph/tensor_limits.h"
#include "src/graph/unfolded.h"
#include "src/graph/views.h"
#include "src/ops/attributes.h"

namespace nestor {

namespace {

// Above these sizes (in elements) constants are folded later, by compiled code.
constexpr int64_t kSmallInput = 65536, kSmallOutput = 4096;
constexpr double kSmallWork = 3e7;  // of all of them, interpreted

std::string label(const ModelNode& n) {
  if (!n.name.empty()) return fmt::format("{} node `{}`", n.op, n.name);
  const auto made =
      std::find_if(n.outputs.begin(), n.outputs.end(), [](const auto& o) { return !o.empty(); });
  return made == n.outputs.end() ? n.op + " node" : fmt::format("{} node that makes `{}`", n.op, *made);
}

class Builder {
 public:
  Builder(const Model& model, const BuildOptions& options, bool fold)
      : m_(model),
        evaluate_(options.evaluate ? options.evaluate : evaluate_by_interpreter),
        dims_(options.dims),
        fold_(fold),
        problems_(model.file) {}

  Graph run() {
    g_.name = m_.name.empty() ? "model" : m_.name;
    add_inputs();
    add_initializers();
    budget_.emplace(g_, kSmallWork);
    for (const ModelNode& n : m_.nodes) add_outputs(n);
    add_graph_outputs();
    for (int i : sort_nodes(m_, problems_)) add_node(m_.nodes[static_cast<size_t>(i)]);
    check_declared_outputs();
    problems_.throw_if_any();
    compact(g_, std::vector<bool>(g_.nodes.size(), true));
    return std::move(g_);
  }

 private:
  // ---- Values

  // A value of a name; a second one is a problem, and only the first counts.
  ValueId define(const std::string& name, const std::string& what, TensorType type, bool known) {
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

  void add_inputs() {
    std::set<std::string> initialized;
    for (const auto& entry : m_.initializers) initialized.insert(entry.first);
    std::set<std::string> open, mentioned;
    for (const ModelValue& v : m_.inputs) {
      if (initialized.count(v.name)) continue;  // ONNX lists initializers among the inputs: their defaults
      bool known = true;
      TensorType type{v.dtype, {}};
      if (!v.typed || !v.ranked) {
        problems_.add(fmt::format("input `{}` has no {}", v.name, v.typed ? "shape" : "element type"));
        known = false;
      }
      for (size_t d = 0; d < v.shape.size(); ++d) {
        const std::string place = fmt::format("{}.{}", v.name, d);
        const std::string name = v.shape[d].name.empty() ? place : v.shape[d].name;
        std::optional<int64_t> size = v.shape[d].value;
        mentioned.insert({name, place});
        if (!size)
          for (const std::string& key : {name, place})
            if (const auto it = dims_.find(key); it != dims_.end()) size = it->second;
        if (!size) open.insert(name);
        if (size && *size < 0)
          problems_.add(fmt::format("dimension {} of input `{}` is {}", d, v.name, *size));
        known = known && size && *size >= 0;
        type.shape.push_back(size.value_or(0));
      }
      if (const std::string why = known ? refusal_of(type) : ""; !why.empty()) {
        problems_.add(fmt::format("input `{}` {}", v.name, why));
        known = false;
      }
      if (const ValueId id = define(v.name, "an input", type, known); id >= 0) g_.inputs.push_back(id);
    }
    std::string hint;
    for (const std::string& name : open) hint += fmt::format("{}--dim {}=...", hint.empty() ? "" : " ", name);
    if (!open.empty())
      problems_.add(fmt::format("dimension{} {} of the inputs {} no value", open.size() > 1 ? "s" : "",
                                fmt::join(open, ", "), open.size() > 1 ? "have" : "has"),
                    hint);
    for (const auto& [name, size] : dims_)
      if (!mentioned.count(name) || size < 0)
        problems_.add(mentioned.count(name)
                          ? fmt::format("--dim {}={} is negative", name, size)
                          : fmt::format("--dim {}={}: no input has such a dimension", name, size));
  }

  void add_initializers() {
    std::set<std::string> read;
    for (const ModelNode& n : m_.nodes) read.insert(n.inputs.begin(), n.inputs.end());
    for (const ModelValue& v : m_.outputs) read.insert(v.name);
    std::map<std::string, const ModelValue*> inputs;
    for (const ModelValue& v : m_.inputs) inputs[v.name] = &v;
    for (const auto& [name, tensor] : m_.initializers) {
      if (const auto it = inputs.find(name);
          it != inputs.end() && it->second->typed && it->second->dtype != tensor.dtype())
        problems_.add(fmt::format("initializer `{}` is {}, the input of that name is {}", name,
                                  name_of(tensor.dtype()), name_of(it->second->dtype)));
      const TensorType type{tensor.dtype(), tensor.shape()};
      const std::string why = refusal_of(type);
      if (!why.empty()) problems_.add(fmt::format("initializer `{}` {}", name, why));
      const ValueId v = define(name, "an initializer", type, why.empty());
      if (v >= 0 && read.count(name)) value_of(g_, v).constant = tensor;
    }
  }

  void add_outputs(const ModelNode& n) {
    for (const std::string& name : n.outputs)
      if (!name.empty()) define(name, "made by " + label(n), {}, false);
  }

  void add_graph_outputs() {
    if (m_.outputs.empty()) problems_.add("the model has no outputs");
    std::set<ValueId> listed;
    for (const ModelValue& v : m_.outputs) {
      const auto it = by_name_.find(v.name);
      if (it == by_name_.end())
        problems_.add(fmt::format("output `{}` is made by no node", v.name), nearest_value(v.name));
      else if (!listed.insert(it->second).second)
        problems_.add(fmt::format("output `{}` is listed twice", v.name));
      else
        g_.outputs.push_back(it->second);
    }
  }

  std::string nearest_value(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : by_name_) names.push_back(entry.first);
    return did_you_mean(name, names);
  }

  // ---- Nodes

  void add_node(const ModelNode& mn) {
    Node n{mn.op, mn.name, 0, {}, {}, mn.attrs, mn.domain};
    bool known = true;
    for (const std::string& name : mn.inputs) {
      const auto it = by_name_.find(name);
      n.inputs.push_back(name.empty() || it == by_name_.end() ? -1 : it->second);
      if (name.empty()) continue;
      if (it == by_name_.end()) {
        known = false;
        if (undefined_.insert(name).second)
          problems_.add(fmt::format("{} reads `{}`, which nothing defines", label(mn), name),
                        nearest_value(name));
      } else {
        known = known && known_[static_cast<size_t>(it->second)];
      }
    }
    while (!n.inputs.empty() && n.inputs.back() < 0 && known) n.inputs.pop_back();
    for (const std::string& name : mn.outputs) n.outputs.push_back(name.empty() ? -1 : by_name_.at(name));

    const OpDef* op = supported(mn, n);
    if (!op || !known || !counts_fit(mn, n, *op)) return;
    try {
      const std::vector<TensorType> types = infer(n, *op);
      if (std::all_of(n.outputs.begin(), n.outputs.end(), [](ValueId v) { return v < 0; })) return;  // unread
      // The first output says what a node makes, so it is there even where nobody reads it.
      if (n.outputs[0] < 0 && !op->spelled_out) n.outputs[0] = add_unread(types[0]);
      std::vector<Node> nodes;
      if (!spell_out_attention(g_, n, nodes) && !spell_out_recurrent(g_, n, nodes) &&
          !spell_out_top_k(g_, n, nodes) && !spell_out_wide(g_, n, nodes))
        return append(std::move(n), *op);
      known_.resize(g_.values.size(), true);
      for (Node& part : nodes) {
        const OpDef& of_part = *find_op(part.domain, part.op, part.opset);
        append(std::move(part), of_part);
      }
    } catch (const UserError& e) {
      const Diagnostic& d = e.diagnostic();
      const bool named = d.message.starts_with(mn.op + " node");
      problems_.add(named ? d.message : fmt::format("{} (opset {}): {}", label(mn), n.opset, d.message),
                    d.hint);
    }
  }

  void append(Node n, const OpDef& op) {
    if (fold(n, op) && fold_) return;
    for (ValueId v : n.outputs)
      if (v >= 0) value_of(g_, v).producer = static_cast<int>(g_.nodes.size());
    g_.nodes.push_back(std::move(n));
  }

  // The operator, or nullptr after a problem that says what it isn't and what there is.
  const OpDef* supported(const ModelNode& mn, Node& n) {
    const auto version = m_.opsets.find(mn.domain);
    // Operators of a user's own file need no opset.
    n.opset = version == m_.opsets.end() ? (mn.domain.empty() ? 0 : 1) : static_cast<int>(version->second);
    std::string where = fmt::format("{} (opset {}", label(mn), n.opset);
    if (!mn.domain.empty()) where += fmt::format(" of domain {}", mn.domain);
    if (!n.inputs.empty() && n.inputs[0] >= 0 && known_[static_cast<size_t>(n.inputs[0])])
      where += fmt::format(", {}", name_of(value_of(g_, n.inputs[0]).type.dtype));
    where += ")";
    const OpDef* op = find_op(mn.domain, mn.op, n.opset);
    if (!op) {
      for (const OpDef* other : all_ops())
        if (other->name == mn.op && other->domain == mn.domain) {
          problems_.add(
              fmt::format("{}: this opset's {} isn't supported", where, mn.op),
              fmt::format("opset {}{} is", other->since,
                          other->until < 1000 ? fmt::format(" to {}", other->until) : " and later"));
          return nullptr;
        }
      const std::string near = nearest_op(mn.op);
      problems_.add(where + ": the operator isn't supported",
                    near.empty() ? "" : "did you mean `" + near + "`?");
      return nullptr;
    }
    for (const auto& [name, kind] : mn.refused_attrs)
      problems_.add(fmt::format("{}: attribute `{}` is a {}, which isn't supported", where, name, kind));
    const bool known = knows_attributes(mn, n.opset, where);
    return mn.refused_attrs.empty() && known ? op : nullptr;
  }

  // One that ONNX doesn't have would be taken for its default. Those that begin with __ are anyone's own.
  bool knows_attributes(const ModelNode& mn, int opset, const std::string& where) {
    const auto known =
        mn.domain.empty() || mn.domain == "ai.onnx" ? ops::attributes_of(mn.op, opset) : std::nullopt;
    bool all = true;
    for (const auto& [name, value] : mn.attrs) {
      if (!known || name.starts_with("__") || std::find(known->begin(), known->end(), name) != known->end())
        continue;
      all = false;
      std::string hint = did_you_mean(name, *known);
      if (hint.empty())
        hint = known->empty() ? "it has none" : fmt::format("it has {}", fmt::join(*known, ", "));
      problems_.add(fmt::format("{}: the operator has no attribute `{}`", where, name), hint);
    }
    return all;
  }

  bool counts_fit(const ModelNode& mn, const Node& n, const OpDef& op) {
    const int count = static_cast<int>(n.inputs.size());
    std::string expected = op.max_inputs == op.min_inputs ? fmt::format("{}", op.min_inputs)
                           : op.max_inputs < 0            ? fmt::format("at least {}", op.min_inputs)
                                               : fmt::format("{} to {}", op.min_inputs, op.max_inputs);
    if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) {
      problems_.add(
          fmt::format("{} (opset {}) has {} inputs, it takes {}", label(mn), n.opset, count, expected));
      return false;
    }
    for (int i = 0; i < op.min_inputs; ++i)
      if (n.inputs[static_cast<size_t>(i)] < 0) {
        problems_.add(fmt::format("{} (opset {}): input {} can't be omitted", label(mn), n.opset, i));
        return false;
      }
    return true;
  }

  // Gives the outputs their types, or throws.
  std::vector<TensorType> infer(const Node& n, const OpDef& op) {
    const OpContext ctx(g_, n);
    std::vector<TensorType> types = op.infer(ctx);
    size_t wanted = n.outputs.size();
    while (wanted > 0 && n.outputs[wanted - 1] < 0) --wanted;
    if (wanted > types.size()) ctx.fail(fmt::format("has {} outputs, it gives {}", wanted, types.size()));
    for (size_t i = 0; i < wanted; ++i) {
      if (const std::string why = refusal_of(types[i]); !why.empty())
        ctx.fail(fmt::format("output {} {}", i, why));
      if (n.outputs[i] < 0) continue;
      value_of(g_, n.outputs[i]).type = types[i];
      known_[static_cast<size_t>(n.outputs[i])] = true;
    }
    return types;
  }

  ValueId add_unread(TensorType type) {
    known_.push_back(true);
    g_.values.push_back({"unread", std::move(type), {}, -1});
    return static_cast<ValueId>(g_.values.size()) - 1;
  }

  // Whether the node's outputs are known already; then they are constants and no node is needed.
  bool fold(const Node& n, const OpDef& op) {
    if (n.outputs.empty() || n.outputs[0] < 0) return false;
    if (op.fold) {
      Tensor t = op.fold(OpContext(g_, n));
      if (t.defined()) {
        value_of(g_, n.outputs[0]).constant = std::move(t);
        return true;
      }
    }
    for (ValueId v : n.inputs)
      if (v >= 0 && !is_constant(g_, v)) return false;
    if (is_view(g_, n)) {
      Value& out = value_of(g_, n.outputs[0]);
      out.constant = constant_of(g_, n.inputs[0]).reshaped(out.type.shape);
      // Weights that are tied by an Identity are one value from here on.
      if (const auto it = by_name_.find(out.name);
          fold_ && it != by_name_.end() && is_identity(g_, n) && !is_output(g_, n.outputs[0]))
        it->second = n.inputs[0];
      return true;
    }
    // What bytes stand for is for passes to see (multiply_quantized), and says no shape.
    const bool waits = op.pattern == Pattern::anchor || (n.op == "DequantizeLinear" && n.domain.empty());
    return !waits && is_small(n) && budget_->fold(g_, n, evaluate_);
  }

  bool is_small(const Node& n) const {
    int64_t read = 0, made = 0;
    for (ValueId v : n.inputs)
      if (v >= 0) read += constant_of(g_, v).size();
    for (ValueId v : n.outputs)
      if (v >= 0) made += product(value_of(g_, v).type.shape);
    return read <= kSmallInput && made <= kSmallOutput;
  }

  // ---- The end

  void check_declared_outputs() {
    for (const ModelValue& v : m_.outputs) {
      const auto it = by_name_.find(v.name);
      if (it == by_name_.end() || !known_[static_cast<size_t>(it->second)]) continue;
      const TensorType& type = value_of(g_, it->second).type;
      if (v.typed && v.dtype != type.dtype)
        problems_.add(fmt::format("output `{}` is declared as {}, the nodes make {}", v.name,
                                  name_of(v.dtype), to_string(type)));
      if (!v.ranked) continue;
      bool equal = v.shape.size() == type.shape.size();
      std::vector<std::string> declared;
      for (size_t d = 0; d < v.shape.size(); ++d) {
        const auto named = dims_.find(v.shape[d].name);
        const std::optional<int64_t> size =
            v.shape[d].value || named == dims_.end() ? v.shape[d].value : named->second;
        declared.push_back(size ? std::to_string(*size) : v.shape[d].name.empty() ? "?" : v.shape[d].name);
        equal = equal && (!size || *size == type.shape[d]);
      }
      if (!equal)
        problems_.add(fmt::format("output `{}` is declared with shape [{}], the nodes make {}", v.name,
                                  fmt::join(declared, ","), to_string(type)));
    }
  }

  const Model& m_;
  const EvaluateFn evaluate_;
  const std::map<std::string, int64_t>& dims_;
  const bool fold_;
  Problems problems_;
  Graph g_;
  std::optional<FoldBudget> budget_;
  std::map<std::string, ValueId> by_name_;
  std::map<std::string, std::string> defined_by_;
  std::vector<bool> known_;  // by value: whether its type is
  std::set<std::string> undefined_;
};

Graph build(const Model& model, const BuildOptions& options, bool fold) {
  auto nodes = spell_out_bytes(model);
  if (!nodes) return Builder(model, options, fold).run();
  Model spelled = model;
  spelled.nodes = std::move(*nodes);
  return Builder(spelled, options, fold).run();
}

}  // namespace

Graph build_graph(const Model& model, const BuildOptions& options) {
  return build(model, options, true);
}

Graph build_unfolded(const Model& model, const BuildOptions& options) {
  return build(model, options, false);
}

}  // namespace nestor
