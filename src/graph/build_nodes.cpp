// Nodes of a model as nodes of the graph: each is refused with all its reasons, computed on the spot where
// its inputs are known and small, or appended. An If whose condition is known by then is its branch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "nestor/nearest.h"
#include "src/graph/builder.h"
#include "src/graph/compose.h"
#include "src/graph/edit.h"
#include "src/graph/elements.h"
#include "src/graph/found_sizes.h"
#include "src/graph/sort.h"
#include "src/graph/spell_out.h"
#include "src/graph/spell_out_bytes.h"
#include "src/graph/spell_out_halves.h"
#include "src/graph/tensor_limits.h"
#include "src/graph/unsupported.h"
#include "src/graph/views.h"
#include "src/ops/attributes.h"

namespace nestor {

namespace {

// Above these sizes (in elements) constants are folded later, by compiled code.
constexpr int64_t kSmallInput = 65536, kSmallOutput = 4096;

}  // namespace

int Builder::opset_of(const ModelNode& mn) const {
  if (mn.opset > 0) return mn.opset;
  const auto version = m_.opsets.find(mn.domain);
  // Operators of a user's own file need no opset.
  return version == m_.opsets.end() ? (mn.domain.empty() ? 0 : 1) : static_cast<int>(version->second);
}

NodeLabel Builder::label_of(const ModelNode& mn) const {
  const auto made =
      std::find_if(mn.outputs.begin(), mn.outputs.end(), [](const auto& o) { return !o.empty(); });
  return {mn.op, mn.name, made == mn.outputs.end() ? "" : *made, ""};
}

// With opset, domain and the first input's type, which tell refusals of one operator apart.
NodeLabel Builder::full_label(const ModelNode& mn) const {
  NodeLabel label = label_of(mn);
  label.context = fmt::format("opset {}", opset_of(mn));
  if (!mn.domain.empty()) label.context += fmt::format(" of domain {}", mn.domain);
  const ValueId first = mn.inputs.empty() ? -1 : find(mn.inputs[0]);
  if (first >= 0 && is_known(first))
    label.context += fmt::format(", {}", name_of(value_of(g_, first).type.dtype));
  return label;
}

void Builder::refuse(const ModelNode& mn, const std::string& message, const std::string& hint) {
  problems_.add(full_label(mn), message, hint);
}

void Builder::add_in_order(const std::vector<ModelNode>& nodes) {
  for (int i : sort_nodes(nodes, problems_)) add_node(nodes[static_cast<size_t>(i)]);
}

// What stands for a node, whose outputs are there already; other values are defined here.
void Builder::add_inner(const std::vector<ModelNode>& nodes) {
  std::set<std::string> made;
  for (const ModelNode& n : nodes) {
    for (std::string& name : reads_of(n)) read_.insert(std::move(name));
    for (const std::string& name : n.outputs)
      if (!name.empty() && (!made.insert(name).second || find(name) < 0))
        define(name, "made by " + to_string(label_of(n)), {}, false);
  }
  add_in_order(nodes);
}

void Builder::add_node(const ModelNode& mn) {
  if (const auto spelled = spell_out_bytes(mn, opset_of(ModelNode{}), fresh_)) return add_inner(*spelled);
  const int step = static_cast<int>(steps_.size());
  problems_.begin_step(step);
  steps_.emplace_back();
  for (const std::string& name : reads_of(mn))
    if (const ValueId v = find(name); v >= 0) steps_.back().reads.push_back(v);
  for (const std::string& name : mn.outputs)
    if (!name.empty()) steps_.back().makes.push_back(find(name));
  const bool own = mn.domain.empty();
  if (own && mn.op == "If")
    build_if(mn);
  else if (own && mn.op == "Scan")
    build_scan(mn);
  else if (own && mn.op == "Loop")
    build_loop(mn);
  else
    build_node(mn);
  assume_declared(mn);
  problems_.begin_step(-1);
}

// ---- If

// Its outputs are those of the branch that its condition chooses.
void Builder::build_if(const ModelNode& mn) {
  const auto then_branch = mn.graphs.find("then_branch"), else_branch = mn.graphs.find("else_branch");
  if (mn.inputs.size() != 1 || then_branch == mn.graphs.end() || else_branch == mn.graphs.end())
    return refuse(mn, "it must have a condition, a `then_branch` and an `else_branch`");
  Node n;
  if (!resolve_inputs(mn, n)) return;
  const Value& condition = value_of(g_, n.inputs[0]);
  if (condition.type.dtype != DType::boolean || product(condition.type.shape) != 1)
    return refuse(mn, fmt::format("its condition is {}, it must be one bool", to_string(condition.type)));
  if (!condition.constant.defined() && options_.control_flow)
    return build_branch(mn, n.inputs[0], *then_branch->second, *else_branch->second);
  if (!condition.constant.defined()) {
    const std::string hint = ask_for(n.inputs[0]);
    return refuse(
        mn,
        fmt::format("control flow isn't supported on this target if the condition, `{}`, is computed "
                    "at run time",
                    condition.name),
        hint.empty() ? "a CPU as target, or export the model with only one of the branches" : hint);
  }
  const bool taken = condition.constant.get_int(0) != 0;
  branches_ = true;
  steps_.back() = {};  // the nodes of the branch make them
  inline_branch(mn, taken ? *then_branch->second : *else_branch->second);
}

// The model's inputs on which a value depends.
std::vector<ValueId> Builder::inputs_behind(ValueId v) const {
  std::vector<bool> read(g_.values.size(), false);
  read[static_cast<size_t>(v)] = true;
  for (size_t i = steps_.size(); i-- > 0;)
    if (std::any_of(steps_[i].makes.begin(), steps_[i].makes.end(),
                    [&](ValueId m) { return read[static_cast<size_t>(m)]; }))
      for (ValueId r : steps_[i].reads) read[static_cast<size_t>(r)] = true;
  std::vector<ValueId> out;
  for (ValueId input : g_.inputs)
    if (read[static_cast<size_t>(input)] && is_known(input)) out.push_back(input);
  return out;
}

// Notes that the value of v would have to be known; says how, where inputs alone decide it.
std::string Builder::ask_for(ValueId v) {
  std::string out;
  for (const ValueId input : inputs_behind(v)) {
    const Value& value = value_of(g_, input);
    unknown_inputs_.insert(value.name);
    out += fmt::format("{}--const {}={}", out.empty() ? "" : " ", value.name,
                       product(value.type.shape) == 1 ? "VALUE" : "@FILE.npy");
  }
  return out.empty() ? "" : out + " makes it known";
}

void Builder::inline_branch(const ModelNode& mn, const ModelGraph& branch) {
  if (branch.outputs.size() != mn.outputs.size())
    return refuse(mn, fmt::format("it has {} outputs, its branch `{}` has {}", mn.outputs.size(), branch.name,
                                  branch.outputs.size()));
  const std::vector<std::string> out = inline_body(mn, branch, {});
  give_states(mn, out);
}

// ---- Other nodes

// Whether all inputs are known; those that nothing defines are a problem.
bool Builder::resolve_inputs(const ModelNode& mn, Node& n) {
  bool known = true;
  for (const std::string& name : mn.inputs) {
    n.inputs.push_back(name.empty() ? -1 : find(name));
    if (name.empty()) continue;
    if (n.inputs.back() < 0 && undefined_.insert(name).second)
      problems_.add(fmt::format("{} reads `{}`, which nothing defines", to_string(label_of(mn)), name),
                    nearest_value(name));
    known = known && n.inputs.back() >= 0 && is_known(n.inputs.back());
  }
  while (!n.inputs.empty() && n.inputs.back() < 0 && known) n.inputs.pop_back();
  return known;
}

void Builder::build_node(const ModelNode& mn) {
  Node n{mn.op, mn.name, opset_of(mn), {}, {}, mn.attrs, mn.domain};
  const bool known = resolve_inputs(mn, n);
  for (const std::string& name : mn.outputs) n.outputs.push_back(read_.count(name) ? find(name) : -1);
  const bool composed = is_composition(mn.domain, mn.op, n.opset);
  const OpDef* op = composed ? nullptr : supported(mn);
  if (!known || (composed ? !knows_attributes(mn, n.opset) : !op || !counts_fit(mn, n, *op))) return;
  try {
    if (const auto made = composed ? compose(g_, n, mn, fresh_) : std::nullopt) {
      steps_.back() = {};
      for (const auto& [name, sizes] : made->sizes) {
        const auto count = static_cast<int64_t>(sizes.size());
        const ValueId v = define(name, "sizes of " + to_string(label_of(mn)), {DType::i64, {count}}, true);
        value_of(g_, v).elements = sizes.exprs();
      }
      return add_inner(made->nodes);
    }
    if (is_found_size(n)) return build_found(mn, std::move(n));
    if (const auto wide = spell_out_halves(g_, n, mn, *op, fresh_)) {
      steps_.back() = {};  // the nodes that stand for it make its values
      return add_inner(*wide);
    }
    const std::vector<TensorType> types = infer(n, *op);
    size_t named = mn.outputs.size();
    while (named > 0 && mn.outputs[named - 1].empty()) --named;
    if (named > types.size())
      return refuse(mn, fmt::format("it has {} outputs, it gives {}", named, types.size()));
    if (std::all_of(n.outputs.begin(), n.outputs.end(), [](ValueId v) { return v < 0; })) return;  // unread
    // The first output says what a node makes, so it is there even where nobody reads it.
    if (n.outputs[0] < 0 && !op->spelled_out) n.outputs[0] = add_unread(types[0]);
    std::vector<Node> nodes;
    if (!spell_out_attention(g_, n, nodes) && !spell_out_batch_norm(g_, n, nodes) &&
        !spell_out_max_pool(g_, n, nodes) && !spell_out_recurrent(g_, n, nodes, options_.control_flow) &&
        !spell_out_top_k(g_, n, nodes, options_.control_flow) && !spell_out_wide(g_, n, nodes) &&
        !drop_empty_parts(g_, n, nodes))
      return append(std::move(n), *op);
    known_.resize(g_.values.size(), true);
    for (Node& part : nodes) {
      const OpDef& of_part = *find_op(part.domain, part.op, part.opset);
      append(std::move(part), of_part);
    }
  } catch (const UnknownInput& e) {
    const auto i = static_cast<size_t>(e.input);  // of a node that may be damaged
    refuse_as(mn, n, e.diagnostic(), ask_for_value_or_bounds(i < n.inputs.size() ? n.inputs[i] : -1));
  } catch (const UserError& e) {
    refuse_as(mn, n, e.diagnostic(), "");
  }
}

void Builder::refuse_as(const ModelNode& mn, const Node& n, const Diagnostic& d, const std::string& hint) {
  const std::string prefix = fmt::format("{} (opset {}): ", to_string(label_of(mn)), n.opset);
  refuse(mn, d.message.starts_with(prefix) ? d.message.substr(prefix.size()) : d.message,
         hint.empty() ? d.hint : hint);
}

// What the file says of a node's outputs stands in for what couldn't be found out, so that problems behind it
// are found, too. Integers may be shapes, whose values would be wanted.
void Builder::assume_declared(const ModelNode& mn) {
  for (const std::string& name : mn.outputs) {
    const ValueId id = name.empty() ? -1 : find(name);
    const auto declared = declared_.find(name);
    if (id < 0 || is_known(id) || declared == declared_.end()) continue;
    const ModelValue& v = *declared->second;
    if (!v.typed || !v.ranked || !v.refused.empty() || !is_float(v.dtype)) continue;
    TensorType type{v.dtype, {}};
    for (const ModelDim& d : v.shape)
      if (const auto size = inputs_.size_of(d)) type.shape.push_back(*size);
    if (type.shape.size() != v.shape.size() || !refusal_of(type).empty()) continue;
    value_of(g_, id).type = type;
    known_[static_cast<size_t>(id)] = true;
  }
}

void Builder::append(Node n, const OpDef& op) {
  if (fold(n, op) && (fold_ || op.spelled_out)) return;  // the latter have no nest
  for (ValueId v : n.outputs)
    if (v >= 0) value_of(g_, v).producer = static_cast<int>(g_.nodes.size());
  g_.nodes.push_back(std::move(n));
  const std::vector<ValueId> made = g_.nodes.back().outputs;
  for (const ValueId v : made)
    if (v >= 0) take_for_sizes(v);
}

// The operator, or nullptr after the problems that say why not.
const OpDef* Builder::supported(const ModelNode& mn) {
  const int opset = opset_of(mn);
  const OpDef* op = find_op(mn.domain, mn.op, opset);
  if (!op) {
    const Refusal why = why_unsupported(mn);
    refuse(mn, why.message, why.hint);
    return nullptr;
  }
  for (const auto& [name, kind] : mn.refused_attrs)
    refuse(mn, fmt::format("attribute `{}` is {}, which isn't supported", name, kind));
  for (const auto& entry : mn.graphs)
    refuse(mn, fmt::format("attribute `{}` is a graph, which isn't supported", entry.first));
  const bool known = knows_attributes(mn, opset);
  return mn.refused_attrs.empty() && mn.graphs.empty() && known ? op : nullptr;
}

// One that ONNX doesn't have would be taken for its default. Those that begin with __ are anyone's own.
bool Builder::knows_attributes(const ModelNode& mn, int opset) {
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
    refuse(mn, fmt::format("the operator has no attribute `{}`", name), hint);
  }
  return all;
}

bool Builder::counts_fit(const ModelNode& mn, const Node& n, const OpDef& op) {
  const int count = static_cast<int>(n.inputs.size());
  std::string expected = op.max_inputs == op.min_inputs ? fmt::format("{}", op.min_inputs)
                         : op.max_inputs < 0            ? fmt::format("at least {}", op.min_inputs)
                                             : fmt::format("{} to {}", op.min_inputs, op.max_inputs);
  if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) {
    refuse(mn, fmt::format("it has {} inputs, it takes {}", count, expected));
    return false;
  }
  for (int i = 0; i < op.min_inputs; ++i)
    if (n.inputs[static_cast<size_t>(i)] < 0) {
      refuse(mn, fmt::format("input {} can't be omitted", i));
      return false;
    }
  return true;
}

// Gives the outputs their types, or throws.
std::vector<TensorType> Builder::infer(const Node& n, const OpDef& op) {
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

ValueId Builder::add_unread(TensorType type) {
  known_.push_back(true);
  g_.values.push_back({"unread", std::move(type), {}, -1});
  return static_cast<ValueId>(g_.values.size()) - 1;
}

// Whether the node's outputs are known already; then they are constants and no node is needed.
bool Builder::fold(const Node& n, const OpDef& op) {
  if (n.outputs.empty() || n.outputs[0] < 0) return false;
  if (find_elements(g_, n)) return true;
  if (op.fold && !has_symbolic_input(g_, n)) {
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

bool Builder::is_small(const Node& n) const {
  int64_t read = 0, made = 0;
  for (ValueId v : n.inputs)
    if (v >= 0) read += constant_of(g_, v).size();
  for (ValueId v : n.outputs)
    if (v >= 0) made += product(value_of(g_, v).type.shape);
  return read <= kSmallInput && made <= kSmallOutput;
}

}  // namespace nestor
