// OpContext: typed access to a node. Wrong kinds of attributes and inputs that must be constant are refused
// here, once, so that operators read as if every node were well made.
#include "nestor/ops.h"
#include "src/ops/size_arithmetic.h"

namespace nestor {

namespace {

const char* kind_of(const AttrValue& v) {
  static constexpr const char* names[] = {
      "an integer",         "a float",          "a string",         "a tensor",
      "a list of integers", "a list of floats", "a list of strings"};
  static_assert(std::size(names) == std::variant_size_v<AttrValue>);
  return names[v.index()];
}

const AttrValue* find(const Node& n, const std::string& name) {
  const auto it = n.attrs.find(name);
  return it == n.attrs.end() ? nullptr : &it->second;
}

[[noreturn]] void wrong_kind(const OpContext& ctx, const std::string& name, const AttrValue& got,
                             const char* wanted) {
  ctx.fail("attribute `" + name + "` is " + kind_of(got) + ", it must be " + wanted);
}

}  // namespace

std::vector<Expr> known_elements(const Value& v) {
  if (!v.constant.defined()) return v.elements;
  std::vector<Expr> out;
  const Type type{v.type.dtype, 1};
  for (int64_t k = 0; k < v.constant.size(); ++k)
    out.push_back(is_float(type.dtype) ? make::float_imm(v.constant.get(k), type)
                                       : make::int_imm(v.constant.get_int(k), type));
  return out;
}

const TensorType& OpContext::input(int i) const {
  if (!has_input(i)) fail("input " + std::to_string(i) + " is missing");
  return graph_.values[static_cast<size_t>(node_.inputs[static_cast<size_t>(i)])].type;
}

const Tensor* OpContext::constant(int i) const {
  if (!has_input(i)) return nullptr;
  const Tensor& t = graph_.values[static_cast<size_t>(node_.inputs[static_cast<size_t>(i)])].constant;
  return t.defined() ? &t : nullptr;
}

std::vector<Expr> OpContext::elements(int i) const {
  if (!has_input(i)) return {};
  return known_elements(graph_.values[static_cast<size_t>(node_.inputs[static_cast<size_t>(i)])]);
}

Dim OpContext::dim(const Expr& size) const {
  if (const auto number = as_int(size)) return *number;
  return {in_integers(make::cast({DType::i64, 1}, size), *graph_.symbols), graph_.symbols};
}

const TensorType& OpContext::output(int i) const {
  NESTOR_CHECK(i < static_cast<int>(node_.outputs.size()) && node_.outputs[static_cast<size_t>(i)] >= 0)
      << "output " << i << " of " << node_.op;
  return graph_.values[static_cast<size_t>(node_.outputs[static_cast<size_t>(i)])].type;
}

bool OpContext::has_output(int i) const {
  return i < static_cast<int>(node_.outputs.size()) && node_.outputs[static_cast<size_t>(i)] >= 0;
}

int64_t OpContext::get_int(const std::string& name, int64_t fallback) const {
  const AttrValue* v = find(node_, name);
  if (!v) return fallback;
  if (const auto* i = std::get_if<int64_t>(v)) return *i;
  wrong_kind(*this, name, *v, "an integer");
}

// ONNX's attributes are f32, its defaults too.
double OpContext::get_float(const std::string& name, double fallback) const {
  const AttrValue* v = find(node_, name);
  if (!v) return static_cast<float>(fallback);
  if (const auto* d = std::get_if<double>(v)) return *d;
  if (const auto* i = std::get_if<int64_t>(v)) return static_cast<double>(*i);  // JSON writes 1.0 as 1
  wrong_kind(*this, name, *v, "a float");
}

std::string OpContext::get_string(const std::string& name, const std::string& fallback) const {
  const AttrValue* v = find(node_, name);
  if (!v) return fallback;
  if (const auto* s = std::get_if<std::string>(v)) return *s;
  wrong_kind(*this, name, *v, "a string");
}

std::vector<int64_t> OpContext::get_ints(const std::string& name, std::vector<int64_t> fallback) const {
  const AttrValue* v = find(node_, name);
  if (!v) return fallback;
  if (const auto* list = std::get_if<std::vector<int64_t>>(v)) return *list;
  // An empty JSON list says nothing about its elements.
  if (const auto* list = std::get_if<std::vector<double>>(v); list && list->empty()) return {};
  if (const auto* list = std::get_if<std::vector<std::string>>(v); list && list->empty()) return {};
  wrong_kind(*this, name, *v, "a list of integers");
}

std::vector<double> OpContext::get_floats(const std::string& name, std::vector<double> fallback) const {
  const AttrValue* v = find(node_, name);
  if (!v) return fallback;
  if (const auto* list = std::get_if<std::vector<double>>(v)) return *list;
  if (const auto* list = std::get_if<std::vector<int64_t>>(v)) return {list->begin(), list->end()};
  if (const auto* list = std::get_if<std::vector<std::string>>(v); list && list->empty()) return {};
  wrong_kind(*this, name, *v, "a list of floats");
}

std::vector<std::string> OpContext::get_strings(const std::string& name,
                                                std::vector<std::string> fallback) const {
  const AttrValue* v = find(node_, name);
  if (!v) return fallback;
  if (const auto* list = std::get_if<std::vector<std::string>>(v)) return *list;
  wrong_kind(*this, name, *v, "a list of strings");
}

bool OpContext::is_string(const std::string& name) const {
  const AttrValue* v = find(node_, name);
  return v && std::holds_alternative<std::string>(*v);
}

const Tensor* OpContext::get_tensor(const std::string& name) const {
  const AttrValue* v = find(node_, name);
  if (!v) return nullptr;
  if (const auto* t = std::get_if<Tensor>(v)) return t;
  wrong_kind(*this, name, *v, "a tensor");
}

bool OpContext::has_attr(const std::string& name) const {
  return find(node_, name) != nullptr;
}

Dims OpContext::ints_from(int i, const std::string& attr) const {
  if (!has_input(i)) return get_ints(attr, {});
  const std::string what = "input " + std::to_string(i) + " (" + attr + ")";
  const TensorType& type = input(i);
  if (type.dtype != DType::i64 && type.dtype != DType::i32)
    fail(what + " is " + to_string(type) + ", it must hold i64 or i32");
  if (type.shape.size() > 1) fail(what + " is " + to_string(type) + ", it must have one dimension");
  const Tensor* t = constant(i);
  if (!t) {
    Dims out;
    for (const Expr& e : elements(i)) out.push_back(dim(e));
    if (out.empty()) fail_unknown(i, what);
    return out;
  }
  Dims out(static_cast<size_t>(t->size()));
  for (size_t k = 0; k < out.size(); ++k) out[k] = t->get_int(static_cast<int64_t>(k));
  return out;
}

namespace {

std::string name_of_node(const Graph& graph, const Node& node) {
  std::string who = node.op + " node";
  if (!node.name.empty()) {
    who += " `" + node.name + "`";
  } else if (!node.outputs.empty() && node.outputs[0] >= 0 &&
             node.outputs[0] < static_cast<int>(graph.values.size())) {
    who += " that makes `" + graph.values[static_cast<size_t>(node.outputs[0])].name + "`";
  }
  return who + " (opset " + std::to_string(node.opset) + "): ";
}

}  // namespace

void OpContext::fail(const std::string& message, const std::string& hint) const {
  throw UserError(Diagnostic{name_of_node(graph_, node_) + message, {}, {}, hint});
}

void OpContext::fail_unknown(int i, const std::string& what) const {
  throw UnknownInput(i, {name_of_node(graph_, node_) + (what.empty() ? "input " + std::to_string(i) : what) +
                             " is computed at run time, it must be known at compile time",
                         {},
                         {},
                         "make it an initializer, or compute it from shapes and constants only"});
}

}  // namespace nestor
