// ONNX Runtime has operators of bytes of its own (domain com.microsoft), which models that its quantizer
// wrote as QOperator, and the model zoo's, are full of. Each is an operator of ONNX between DequantizeLinear
// and QuantizeLinear, as which it is read, so that there is one road for both spellings:
//
//   QLinearAdd(a, sa, za, b, sb, zb, s, z)  =  QuantizeLinear(Add(DequantizeLinear(a, sa, za),
//                                                                 DequantizeLinear(b, sb, zb)), s, z)
//
// What would not be the same stays, and is refused as what it is: other inputs or attributes than these
// operators have, results whose type no zero point says, a QGemm that scales its third matrix by `alpha`, a
// QLinearSoftmax that takes `axis` as another opset than the model's did.
#include "src/graph/spell_out_bytes.h"

namespace nestor {

namespace {

class Speller {
 public:
  Speller(int64_t opset, FreshNames& fresh, std::vector<ModelNode>& nodes)
      : nodes_(nodes), fresh_(fresh), opset_(opset) {}

  // Whether n's spelling was appended.
  bool run(const ModelNode& n) {
    if (n.domain != "com.microsoft" || n.outputs.size() != 1 || attr(n, "channels_last") != 0) return false;
    if (n.op == "QLinearAdd" || n.op == "QLinearMul") return pointwise(n, 2, n.op.substr(7));
    if (n.op == "QLinearSoftmax") return softmax(n);
    for (const char* op : {"Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool"})
      if (n.op == std::string("QLinear") + op) return pointwise(n, 1, op);
    return n.op == "QLinearConcat" ? concat(n) : n.op == "QGemm" && gemm(n);
  }

 private:
  static int64_t attr(const ModelNode& n, const char* name, int64_t missing = 0) {
    const auto it = n.attrs.find(name);
    const auto* value = it == n.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    return value ? *value : missing;
  }
  static std::string input(const ModelNode& n, size_t i) { return i < n.inputs.size() ? n.inputs[i] : ""; }

  std::string add(const ModelNode& n, const std::string& op, std::vector<std::string> inputs,
                  const std::string& output, Attrs attrs = {}) {
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    nodes_.push_back({op, "", n.name, std::move(inputs), {output}, std::move(attrs), {}});
    return output;
  }
  // A name for a value between n's nodes.
  std::string part(const ModelNode& n, const std::string& what) { return fresh_(n.outputs[0] + "." + what); }

  // Of bytes at input i, with the scale and the zero point behind it.
  std::string dequantized(const ModelNode& n, size_t i, Attrs attrs = {}) {
    return add(n, "DequantizeLinear", {n.inputs[i], input(n, i + 1), input(n, i + 2)},
               part(n, "input" + std::to_string(i)), std::move(attrs));
  }
  // By the scale at input i.
  void quantize(const ModelNode& n, const std::string& value, size_t i) {
    add(n, "QuantizeLinear", {value, input(n, i), input(n, i + 1)}, n.outputs[0]);
  }
  static Attrs plain_attrs(const ModelNode& n) {
    Attrs out = n.attrs;
    out.erase("channels_last");
    out.erase("opset");
    return out;
  }

  bool pointwise(const ModelNode& n, size_t operands, const std::string& op) {
    const size_t count = 3 * operands + 2;
    if (n.inputs.size() != count || n.inputs.back().empty()) return false;
    std::vector<std::string> inputs;
    for (size_t k = 0; k < operands; ++k) inputs.push_back(dequantized(n, 3 * k));
    quantize(n, add(n, op, inputs, part(n, "value"), plain_attrs(n)), 3 * operands);
    return true;
  }

  // Since opset 13 along one axis, before over all from it on, which is the same of the last.
  bool softmax(ModelNode n) {
    constexpr int64_t kAlongOne = 13;
    const int64_t axis = attr(n, "axis", -1), as_of = attr(n, "opset");
    if (as_of == 0 || (axis != -1 && (as_of >= kAlongOne) != (opset_ >= kAlongOne))) return false;
    n.attrs["axis"] = axis;
    return pointwise(n, 1, "Softmax");
  }

  // The result's scale and zero point come first, three inputs for each operand behind them.
  bool concat(const ModelNode& n) {
    if (n.inputs.size() < 5 || n.inputs.size() % 3 != 2 || n.inputs[1].empty()) return false;
    std::vector<std::string> inputs;
    for (size_t i = 2; i < n.inputs.size(); i += 3) inputs.push_back(dequantized(n, i));
    quantize(n, add(n, "Concat", inputs, part(n, "value"), plain_attrs(n)), 0);
    return true;
  }

  // A a_scale a_zero B b_scale b_zero C y_scale y_zero: C counts in steps of a_scale * b_scale; without a
  // scale the result is f32.
  bool gemm(const ModelNode& n) {
    if (n.inputs.size() < 6 || n.inputs.size() > 9) return false;
    const auto alpha = n.attrs.find("alpha");
    const auto* factor = alpha == n.attrs.end() ? nullptr : std::get_if<double>(&alpha->second);
    if (factor && *factor != 1 && !input(n, 6).empty()) return false;
    if (input(n, 7).empty() != input(n, 8).empty()) return false;
    Attrs columns;  // until opset 12 there is one scale, and no attribute
    if (opset_ >= 13) columns["axis"] = int64_t{attr(n, "transB") == 0};
    std::vector<std::string> inputs = {dequantized(n, 0), dequantized(n, 3, columns)};
    if (const std::string c = input(n, 6); !c.empty()) {
      const std::string step = add(n, "Mul", {n.inputs[1], n.inputs[4]}, part(n, "step")),
                        real = add(n, "Cast", {c}, part(n, "bias"), {{"to", int64_t{1}}});
      inputs.push_back(add(n, "Mul", {real, step}, part(n, "scaled_bias")));
    }
    const bool bytes = !input(n, 7).empty();
    const std::string value = add(n, "Gemm", inputs, bytes ? part(n, "value") : n.outputs[0], plain_attrs(n));
    if (bytes) quantize(n, value, 7);
    return true;
  }

  std::vector<ModelNode>& nodes_;
  FreshNames& fresh_;
  const int64_t opset_;
};

}  // namespace

std::optional<std::vector<ModelNode>> spell_out_bytes(const ModelNode& n, int64_t opset, FreshNames& fresh) {
  std::vector<ModelNode> out;
  return Speller(opset, fresh, out).run(n) ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace nestor
