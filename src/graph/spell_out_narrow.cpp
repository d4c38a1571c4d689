// ONNX has types of 8 bits and less that few operators take: those that convert them, and those that only
// move elements. The latter move bytes. The others are spelled out:
//
//   y = Cast(x, float8e5m2)         is  y = ToFormat(Cast(x, f32))
//   y = DequantizeLinear(x, s)      is  y = FromFormat(x) * (s, spread over x)
//   y = QuantizeLinear(x, s)        is  y = ToFormat(x / (s, spread over x))
//
// A scale is spread by a DequantizeLinear of ones, which knows axes and blocks.
#include "src/graph/spell_out_narrow.h"

#include <fmt/format.h>

#include <map>

#include "nestor/error.h"
#include "src/graph/files.h"
#include "src/graph/model_names.h"
#include "src/graph/problems.h"
#include "src/ops/formats.h"

namespace nestor {

namespace {

using ops::Format;
using Formats = std::map<std::string, const Format*>;  // by value

const Format* format_named(const std::string& refused) {
  for (const Format& f : ops::kFormats)
    if (refused == narrow_name(f.code)) return &f;
  return nullptr;
}

// How many inputs, from the first on, are data whose type the outputs have; -1: all of them.
int moved_inputs(const std::string& op) {
  static const std::map<std::string, int> kMoves = {
      {"Identity", 1},  {"Reshape", 1},        {"Flatten", 1}, {"Squeeze", 1},      {"Unsqueeze", 1},
      {"Transpose", 1}, {"Split", 1},          {"Slice", 1},   {"Gather", 1},       {"GatherElements", 1},
      {"GatherND", 1},  {"Expand", 1},         {"Tile", 1},    {"DepthToSpace", 1}, {"SpaceToDepth", 1},
      {"Concat", -1},   {"ReverseSequence", 1}};
  const auto it = kMoves.find(op);
  return it == kMoves.end() ? 0 : it->second;
}

// One graph of the model.
class NarrowSpeller {
 public:
  NarrowSpeller(const std::string& file, ModelGraph& g, Formats around, FreshNames& fresh)
      : file_(file), g_(g), formats_(std::move(around)), fresh_(fresh) {}

  void run(bool inside) {
    read_types();
    std::vector<ModelNode> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (ModelNode& n : nodes) {
      for (auto& [name, body] : n.graphs) {
        ModelGraph copy = *body;
        NarrowSpeller(file_, copy, formats_, fresh_).run(true);
        body = std::make_shared<const ModelGraph>(std::move(copy));
      }
      node(std::move(n));
    }
    for (ModelValue& v : g_.outputs)
      if (inside && of(v.name)) fail("a graph around a loop or branch", v.name, "a Cast inside");
  }

 private:
  void read_types() {
    for (auto* values : {&g_.inputs, &g_.outputs, &g_.values})
      for (ModelValue& v : *values) {
        const Format* f = format_named(v.refused);
        if (!f) continue;
        v.refused.clear();
        v.dtype = f->stored;
        if (values == &g_.inputs) formats_[v.name] = f;
      }
    for (const auto& [name, tensor] : g_.initializers) {
      const auto it = g_.refused_initializers.find(name);
      if (it == g_.refused_initializers.end()) continue;
      formats_[name] = format_named(it->second);
      g_.refused_initializers.erase(it);
    }
  }

  const Format* of(const std::string& name) const {
    const auto it = formats_.find(name);
    return it == formats_.end() ? nullptr : it->second;
  }
  const Format* of_input(const ModelNode& n, size_t i) const {
    return i < n.inputs.size() ? of(n.inputs[i]) : nullptr;
  }
  static bool is_float(const Format* f) { return f && f->exponent > 0; }

  [[noreturn]] void fail(const std::string& reader, const std::string& name, const std::string& hint) const {
    file_error(file_,
               fmt::format("{} reads `{}`, {}, which isn't supported there", reader, name,
                           narrow_name(of(name)->code)),
               hint);
  }

  void node(ModelNode n) {
    if (const auto it = n.refused_attrs.find("value"); n.op == "Constant" && it != n.refused_attrs.end())
      if (const Format* f = format_named(it->second)) {
        n.refused_attrs.erase(it);
        formats_[n.outputs.at(0)] = f;
      }
    if (n.domain.empty() && n.op == "Cast" && (of_input(n, 0) || asked(n, "to")))
      return convert(n, n.inputs.at(0), asked(n, "to"), "Cast");
    if (n.domain.empty() && n.op == "CastLike" && (of_input(n, 0) || of_input(n, 1)))
      return convert(n, n.inputs.at(0), of_input(n, 1), "CastLike");
    if (n.domain.empty() && n.op == "QuantizeLinear" && (of_input(n, 2) || asked(n, "output_dtype")))
      return quantize(n, of_input(n, 2) ? of_input(n, 2) : asked(n, "output_dtype"));
    if (n.domain.empty() && n.op == "DequantizeLinear" && is_float(of_input(n, 0))) return dequantize(n);
    check_reader(n);
    g_.nodes.push_back(std::move(n));
  }

  static std::string label(const ModelNode& n) {
    return to_string(NodeLabel{n.op, n.name, n.outputs.empty() ? "" : n.outputs[0], ""});
  }
  // A node that stays reads bytes where it only moves them, or numbers.
  void check_reader(const ModelNode& n) {
    const int moved = n.domain.empty() ? moved_inputs(n.op) : 0;
    const bool numbers = (n.domain.empty() && n.op == "DequantizeLinear") || n.op == "GatherBlockQuantized";
    const bool about = n.domain.empty() && (n.op == "Shape" || n.op == "Size");
    const Format* f = of_input(n, 0);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const Format* own = of(n.inputs[i]);
      const bool data = moved < 0 || i < static_cast<size_t>(moved);
      if (data && moved != 0 && own != f)
        fail(label(n), own ? n.inputs[i] : n.inputs[0], "inputs of one type");
      if (own && !data && !about && !(numbers && !is_float(own)))
        fail(label(n), n.inputs[i],
             "Cast, CastLike, QuantizeLinear, DequantizeLinear and operators that move elements take it");
    }
    if (moved != 0 && f)
      for (const std::string& v : n.outputs) formats_[v] = f;
  }

  // The format that an attribute names by ONNX's number.
  static const Format* asked(const ModelNode& n, const std::string& attribute) {
    const auto it = n.attrs.find(attribute);
    const auto* code = it == n.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    return code ? ops::format_of(*code) : nullptr;
  }

  // Appends a node, and gives its output's name: `to`, or a new one.
  std::string add(const ModelNode& of, const std::string& op, std::vector<std::string> inputs, Attrs attrs,
                  const std::string& domain = "", const std::string& to = "") {
    ModelNode n{op,
                domain,
                of.name,
                std::move(inputs),
                {to.empty() ? fresh_(of.outputs.at(0) + ".part") : to},
                std::move(attrs),
                {}};
    n.opset = domain.empty() ? 21 : 1;
    g_.nodes.push_back(std::move(n));
    return g_.nodes.back().outputs[0];
  }
  std::string cast(const ModelNode& of, const std::string& v, DType to) {
    return add(of, "Cast", {v}, {{"to", std::string(name_of(to))}});
  }
  // v, of an element type, as that format.
  void encode(const ModelNode& n, const std::string& v, const Format& f) {
    Attrs attrs{{"format", int64_t{f.code}}};
    for (const char* own : {"saturate", "round_mode"})
      if (const auto it = n.attrs.find(own); it != n.attrs.end()) attrs[own] = it->second;
    const std::string from = cast(n, v, is_float(&f) ? DType::f32 : DType::i32);
    add(n, "ToFormat", {from}, std::move(attrs), "nestor", n.outputs.at(0));
    formats_[n.outputs[0]] = &f;
  }
  std::string decode(const ModelNode& n, const std::string& v) {
    return add(n, "FromFormat", {v}, {{"format", int64_t{of(v)->code}}}, "nestor");
  }

  void convert(const ModelNode& n, const std::string& x, const Format* to, const std::string& op) {
    const std::string from = is_float(of(x)) ? decode(n, x) : x;
    if (to) return encode(n, from, *to);
    ModelNode plain = n;
    plain.op = op;
    plain.inputs[0] = from;
    for (const char* own : {"saturate", "round_mode"}) plain.attrs.erase(own);
    g_.nodes.push_back(std::move(plain));
  }

  // Scales, or zero points, in f32 at every element that `ones` has.
  std::string spread(const ModelNode& n, const std::string& ones, const std::string& scale) {
    Attrs attrs;
    for (const char* own : {"axis", "block_size"})
      if (const auto it = n.attrs.find(own); it != n.attrs.end()) attrs[own] = it->second;
    return add(n, "DequantizeLinear", {ones, scale}, std::move(attrs));
  }

  void quantize(const ModelNode& n, const Format* f) {
    if (!is_float(f)) {
      ModelNode bytes = n;
      bytes.attrs.erase("output_dtype");
      if (n.inputs.size() < 3 || n.inputs[2].empty())
        bytes.attrs["output_dtype"] = std::string(name_of(f->stored));
      bytes.outputs[0] = fresh_(n.outputs.at(0) + ".byte");
      g_.nodes.push_back(bytes);
      const int64_t least = f->stored == DType::i8 ? -(1 << (f->bits - 1)) : 0;
      const std::string low = number(least, f->stored), high = number(least + (1 << f->bits) - 1, f->stored);
      add(n, "Clip", {bytes.outputs[0], low, high}, {}, "", n.outputs[0]);
      formats_[n.outputs[0]] = f;
      return;
    }
    const std::string x = cast(n, n.inputs.at(0), DType::f32), nan = add(n, "IsNaN", {x}, {});
    const std::string ones = cast(n, add(n, "Or", {nan, add(n, "Not", {nan}, {})}, {}), DType::u8);
    std::string y = add(n, "Div", {x, spread(n, ones, cast(n, n.inputs.at(1), DType::f32))}, {});
    if (of_input(n, 2)) y = add(n, "Add", {y, spread(n, ones, decode(n, n.inputs[2]))}, {});
    encode(n, y, *f);
  }

  void dequantize(const ModelNode& n) {
    const std::string& x = n.inputs[0];
    const std::string ones = cast(n, add(n, "Equal", {x, x}, {}), DType::u8);
    std::string y = decode(n, x);
    if (of_input(n, 2)) y = add(n, "Sub", {y, spread(n, ones, decode(n, n.inputs[2]))}, {});
    y = add(n, "Mul", {y, spread(n, ones, cast(n, n.inputs.at(1), DType::f32))}, {});
    const auto it = n.attrs.find("output_dtype");
    const auto* type = it == n.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    if (type && *type != 0)
      add(n, "Cast", {y}, {{"to", *type}}, "", n.outputs.at(0));
    else
      add(n, "CastLike", {y, n.inputs[1]}, {}, "", n.outputs.at(0));
  }

  std::string number(int64_t value, DType type) {
    Tensor t(type, {});
    t.set_int(0, value);
    g_.initializers.emplace_back(fresh_("bound"), std::move(t));
    return g_.initializers.back().first;
  }

  const std::string& file_;
  ModelGraph& g_;
  Formats formats_;
  FreshNames& fresh_;
};

}  // namespace

std::string narrow_name(int code) {
  const Format* f = ops::format_of(code);
  return f ? fmt::format("a tensor of {}", f->name) : "";
}

void spell_out_narrow(Model& m) {
  FreshNames fresh(all_names(m));
  NarrowSpeller(m.file, m, {}, fresh).run(false);
}

}  // namespace nestor
