#include "src/graph/growing_states.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "src/graph/build_parts.h"
#include "src/graph/import.h"
#include "src/graph/model_names.h"

namespace nestor {

namespace {

// How one state grows.
struct Growth {
  int64_t axis = 0;
  std::vector<std::string> appended;  // names in the body
  std::vector<const ModelNode*> by;   // nodes of the body
};

class Body {
 public:
  explicit Body(const ModelGraph& g) : g_(g) {
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      for (const std::string& name : reads_of(g.nodes[i])) readers_[name].push_back(i);
    }
    for (const ModelValue& v : g.outputs) ++outputs_[v.name];
    for (const ModelValue& v : g.inputs) own_.insert(v.name);
    for (const auto& entry : g.initializers) own_.insert(entry.first);
    for (const ModelNode& n : g.nodes) own_.insert(n.outputs.begin(), n.outputs.end());
  }

  std::optional<Growth> growth(const std::string& state, const std::string& left,
                               const TensorType& type) const {
    Growth out;
    std::string name = state;
    const ModelNode* n = only_reader(name);
    for (; n && keeps(*n, type.dtype); n = only_reader(name)) {
      out.by.push_back(n);
      name = n->outputs[0];
    }
    if (!n || n->op != "Concat" || !is_onnx(*n) || n->inputs.size() < 2 || n->inputs[0] != name ||
        std::count(n->inputs.begin(), n->inputs.end(), name) != 1)
      return std::nullopt;
    out.axis = attr_of<int64_t>(*n, "axis", 0);
    out.appended.assign(n->inputs.begin() + 1, n->inputs.end());
    out.by.push_back(n);
    const auto rank = static_cast<int64_t>(type.shape.size());
    if (out.axis < 0) out.axis += rank;
    if (out.axis < 0 || out.axis >= rank) return std::nullopt;
    // From there to what the iteration leaves, and nowhere else.
    for (name = n->outputs[0]; name != left; name = n->outputs[0]) {
      n = only_reader(name);
      if (!n || !keeps(*n, type.dtype)) return std::nullopt;
      out.by.push_back(n);
    }
    const auto to = outputs_.find(left);
    if (to == outputs_.end() || to->second != 1 || readers_.count(left)) return std::nullopt;
    return out;
  }

  // Whether the name is one of the body's own.
  bool hides(const std::string& name) const { return own_.count(name) > 0; }

 private:
  static bool is_onnx(const ModelNode& n) { return n.domain.empty() || n.domain == "ai.onnx"; }
  // Identity, or a Cast to the type that it has.
  static bool keeps(const ModelNode& n, DType type) {
    if (!is_onnx(n) || n.inputs.size() != 1 || n.outputs.size() != 1) return false;
    if (n.op == "Identity") return true;
    return n.op == "Cast" && (attr_of<std::string>(n, "to", "") == name_of(type) ||
                              dtype_from_onnx(static_cast<int>(attr_of<int64_t>(n, "to", -1))) == type);
  }
  const ModelNode* only_reader(const std::string& name) const {
    const auto it = readers_.find(name);
    const bool one = it != readers_.end() && it->second.size() == 1 && !outputs_.count(name);
    return one ? &g_.nodes[it->second[0]] : nullptr;
  }

  const ModelGraph& g_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;
  std::unordered_map<std::string, int> outputs_;
  std::unordered_set<std::string> own_;
};

// What iterations gave, side by side along a new first axis, as one tensor along `axis`; adds the nodes.
std::string join(const ModelNode& loop, const std::string& all, const std::string& begins, int64_t axis,
                 int64_t rank, const std::function<std::string(const std::string&)>& fresh,
                 std::vector<ModelNode>& nodes) {
  const auto add = [&](const std::string& op, std::vector<std::string> inputs, Attrs attrs = {}) {
    nodes.push_back(plain(loop, op, std::move(inputs), fresh(all + "." + op), std::move(attrs)));
    return nodes.back().outputs[0];
  };
  std::string turned = all;
  if (axis > 0) {  // the iterations just before it
    std::vector<int64_t> order;
    for (int64_t d = 0; d <= rank; ++d) order.push_back(d < axis ? d + 1 : d == axis ? 0 : d);
    turned = add("Transpose", {all}, {{"perm", order}});
  }
  Tensor rest(DType::i64, {1});
  rest.set_int(0, -1);
  std::vector<std::string> shape;
  if (axis > 0) shape.push_back(add("Shape", {begins}, {{"end", axis}}));
  shape.push_back(add("Constant", {}, {{"value", rest}}));
  if (axis + 1 < rank) shape.push_back(add("Shape", {begins}, {{"start", axis + 1}}));
  return add("Reshape", {turned, add("Concat", shape, {{"axis", int64_t{0}}})});
}

// None of the elements of `of`, along `axis`; adds the nodes.
std::string no_rows(const ModelNode& loop, const std::string& of, int64_t axis,
                    const std::function<std::string(const std::string&)>& fresh, ModelGraph& body) {
  const auto list = [&](int64_t n) {
    Tensor t(DType::i64, {1});
    t.set_int(0, n);
    body.nodes.push_back(plain(loop, "Constant", {}, fresh(of + ".number"), {{"value", t}}));
    return body.nodes.back().outputs[0];
  };
  const std::string zero = list(0), along = list(axis);
  body.nodes.push_back(plain(loop, "Slice", {of, zero, zero, along}, fresh(of + ".none")));
  return body.nodes.back().outputs[0];
}

}  // namespace

std::optional<WithoutGrowth> without_growth(const ModelNode& loop, const std::vector<TensorType>& types,
                                            const std::function<std::string(const std::string&)>& fresh) {
  const ModelGraph& given = *loop.graphs.at("body");
  const Body body(given);
  WithoutGrowth out{loop, {}};
  auto inner = std::make_shared<ModelGraph>(given);
  std::unordered_set<const ModelNode*> gone;
  bool any = false;
  for (size_t i = types.size(); i-- > 0;) {
    const auto growth = body.growth(given.inputs[2 + i].name, given.outputs[1 + i].name, types[i]);
    if (!growth || body.hides(loop.inputs[2 + i])) continue;
    any = true;
    const auto at = static_cast<std::ptrdiff_t>(i);
    gone.insert(growth->by.begin(), growth->by.end());
    out.loop.inputs.erase(out.loop.inputs.begin() + 2 + at);
    out.loop.outputs.erase(out.loop.outputs.begin() + at);
    inner->inputs.erase(inner->inputs.begin() + 2 + at);
    inner->outputs.erase(inner->outputs.begin() + 1 + at);
    const std::string& name = loop.outputs[i].empty() ? given.outputs[1 + i].name : loop.outputs[i];
    // Appended to no rows of the state, so that it has the state's other dimensions.
    const std::string& begins = loop.inputs[2 + i];
    const Dim& rows = types[i].shape[static_cast<size_t>(growth->axis)];
    const bool empty = rows.known() && rows == 0;
    std::vector<std::string> parts = {empty ? begins : no_rows(loop, begins, growth->axis, fresh, *inner)};
    parts.insert(parts.end(), growth->appended.begin(), growth->appended.end());
    ModelValue element;
    element.name = fresh(name + ".appended");
    inner->nodes.push_back(plain(loop, "Concat", parts, element.name, {{"axis", growth->axis}}));
    inner->outputs.push_back(element);
    out.loop.outputs.push_back(fresh(name + ".all"));
    if (loop.outputs[i].empty()) continue;
    const auto rank = static_cast<int64_t>(types[i].shape.size());
    const std::string joined =
        join(loop, out.loop.outputs.back(), begins, growth->axis, rank, fresh, out.behind);
    out.behind.push_back(
        empty ? plain(loop, "Identity", {joined}, loop.outputs[i])
              : plain(loop, "Concat", {begins, joined}, loop.outputs[i], {{"axis", growth->axis}}));
  }
  if (!any) return std::nullopt;
  std::vector<ModelNode> left;
  for (size_t k = 0; k < inner->nodes.size(); ++k)
    if (k >= given.nodes.size() || !gone.count(&given.nodes[k])) left.push_back(inner->nodes[k]);
  inner->nodes = std::move(left);
  out.loop.graphs["body"] = inner;
  return out;
}

}  // namespace nestor
