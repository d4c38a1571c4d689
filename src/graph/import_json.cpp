// JSON models. The text is parsed first, so that a truncated file is reported by line and column; then its
// fields tell ONNX's protobuf mapping (`graph`) from the shorthand (`nodes`), which is read here:
//
//   {"name": "net", "opset": 17,
//    "inputs":  [{"name": "x", "dtype": "f32", "shape": ["N", 3]}],          a string is a symbolic dimension
//    "outputs": ["y"],                                                        names, or objects as for inputs
//    "nodes":   [{"op": "Gemm", "name": "fc", "inputs": ["x", "W"], "outputs": ["y"], "attrs": {"transB":
//    1}}], "weights": {"W": {"dtype": "f32", "shape": [4, 3], "data": [...]}}}      or {"npz","key"} or
//    {"file","offset",...}
//
// An attribute may be a graph, of the same fields.
#include <fmt/format.h>

#include "src/graph/import.h"
#include "src/graph/json_at.h"
#include "src/graph/json_tensor.h"
#include "src/graph/parse_json.h"

namespace nestor {

namespace {

class ShorthandReader {
 public:
  ShorthandReader(const std::string& file, const Json& root)
      : file_(file), root_(file, root), tensors_(file) {}

  Model read() {
    root_.only({"name", "opset", "opsets", "inputs", "outputs", "nodes", "weights", "initializers", "doc"});
    Model m;
    m.file = file_;
    opsets(m);
    static_cast<ModelGraph&>(m) = graph(root_, "");
    return m;
  }

 private:
  // The model's own, or one that is an attribute: `inside` says of which, "nodes[3] (If).attrs.then_branch:
  // ".
  ModelGraph graph(const JsonAt& at, const std::string& inside) const {
    ModelGraph g;
    if (const auto name = at.find("name")) g.name = name->string();
    for (const JsonAt& v : at.at("inputs").items()) g.inputs.push_back(value(v));
    for (const JsonAt& v : at.at("outputs").items()) g.outputs.push_back(value(v));
    for (const JsonAt& n : at.at("nodes").items()) g.nodes.push_back(node(n));
    for (const char* key : {"weights", "initializers"})
      if (const auto weights = at.find(key))
        for (const auto& [name, place] : weights->fields())
          g.initializers.emplace_back(
              name, tensors_.read(place.renamed(fmt::format("{}weight '{}'", inside, name))));
    return g;
  }

  void opsets(Model& m) const {
    if (const auto all = root_.find("opsets"))
      for (const auto& [domain, version] : all->fields())
        m.opsets[domain == "ai.onnx" ? "" : domain] = version.integer();
    if (const auto version = root_.find("opset")) m.opsets[""] = version->integer();
    if (m.opsets.empty()) root_.fail("missing field `opset`", "\"opset\": 17");
  }

  ModelValue value(const JsonAt& at) const {
    ModelValue out;
    if (at.json().is_string()) {
      out.name = at.string();
      out.typed = out.ranked = false;
    } else {
      at.only({"name", "dtype", "shape", "doc"});
      out.name = at.at("name").string();
      const auto type = at.find("dtype"), shape = at.find("shape");
      out.typed = type.has_value();
      out.ranked = shape.has_value();
      if (type) out.dtype = TensorReader::dtype(*type);
      if (shape)
        for (const JsonAt& d : shape->items()) {
          if (d.json().is_string())
            out.shape.push_back({std::nullopt, d.string()});
          else if (d.json().is_null())
            out.shape.push_back({});
          else
            out.shape.push_back({d.integer(), ""});
        }
    }
    if (out.name.empty()) at.fail("the name is empty");
    return out;
  }

  ModelNode node(const JsonAt& place) const {
    ModelNode out;
    out.op = place.at("op").string();
    const auto name = place.find("name");
    if (name) out.name = name->string();
    const JsonAt at = place.renamed(
        fmt::format("{} ({}{})", place.path(), out.op, out.name.empty() ? "" : " '" + out.name + "'"));
    at.only({"op", "domain", "name", "inputs", "outputs", "attrs", "doc"});
    if (out.op.empty()) at.fail("the operator's name is empty");
    if (const auto domain = at.find("domain"))
      out.domain = domain->string() == "ai.onnx" ? "" : domain->string();
    if (const auto inputs = at.find("inputs")) out.inputs = inputs->strings();
    out.outputs = at.at("outputs").strings();
    if (const auto attrs = at.find("attrs"))
      for (const auto& [key, v] : attrs->fields()) {
        if (v.json().is_object() && v.json().contains("nodes")) {
          v.only({"name", "inputs", "outputs", "nodes", "weights", "initializers", "doc"});
          out.graphs[key] = std::make_shared<ModelGraph>(graph(v, v.path() + ": "));
        } else {
          out.attrs[key] = attribute(v);
        }
      }
    return out;
  }

  // Plain JSON by its own type: 1 is an integer, 1.5 a float, lists are of one kind, an object is a tensor.
  AttrValue attribute(const JsonAt& at) const {
    const Json& j = at.json();
    if (j.is_boolean()) return int64_t{j.get<bool>()};
    if (j.is_number_integer()) return at.integer();
    if (j.is_number()) return at.number();
    if (j.is_object()) return tensors_.read(at);
    if (j.is_string()) return at.string();
    if (!j.is_array()) at.wrong("a number, string, list, or tensor object");
    const auto all = [&](auto test) { return std::all_of(j.begin(), j.end(), test); };
    if (all([](const Json& v) { return v.is_number_integer(); })) return at.integers();
    if (all([](const Json& v) { return v.is_string(); })) return at.strings();
    if (!all([](const Json& v) { return v.is_number(); })) at.wrong("a list of numbers or a list of strings");
    std::vector<double> out;
    for (const JsonAt& item : at.items()) out.push_back(item.number());
    return out;
  }

  const std::string& file_;
  JsonAt root_;
  TensorReader tensors_;
};

}  // namespace

Model read_json_model(const std::string& path, std::string_view text) {
  Json root = parse_json(path, text);
  const JsonAt at(path, root);
  if (!root.is_object()) at.wrong("an object at the top");
  if (root.contains("graph")) return read_onnx_json(path, text, std::move(root));
  if (!root.contains("nodes")) at.fail("missing field `graph` (ONNX's JSON form) or `nodes` (the shorthand)");
  return ShorthandReader(path, root).read();
}

}  // namespace nestor
