// Products of bytes become sums of u8 times i8 without zero points, which machines have instructions for
// (VNNI), and what the zero points come to, which is far less work:
//
//   sum (a - za) (b - zb) = sum a b  -  za sum b  -  zb sum a  +  K za zb        (over K terms)
//
// Exact, since all of it is arithmetic modulo 2^32. Where a is an i8, a + 128 is a u8 with the zero point
// za + 128; where b is a u8, b - 128 is an i8 with the zero point zb - 128. The sums of weights are folded as
// constants; a zero point that is 0 leaves nothing. A convolution's padding holds the zero point, so that it
// takes part in all of this like any other element.
//
// QLinearMatMul and QLinearConv become such a sum and element-wise nodes behind it, which fuse with it.
#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

class ProductExpansion : Expansion {
 public:
  ProductExpansion(Graph& g, const Node& n, std::vector<Node>& nodes)
      : Expansion(g, n, nodes), linear_(n.op.starts_with("QLinear")) {}

  void run() {
    convolution_ = n_.op == "QLinearConv" || n_.op == "ConvInteger";
    const ValueId sum = linear_ ? integer_sum(zero_point(2, true), zero_point(5, false))
                                : integer_sum(zero_point(2, true), zero_point(3, false));
    if (linear_) requantize(sum);
    finish();
  }

 private:
  struct Operand {
    ValueId value = -1, zero = -1;  // of u8 or i8; its zero point, an i32; -1: it is 0
  };

  // Zero point i, of the first operand or the second, an i32 in a shape that broadcasts to the result; -1
  // where it is 0 for sure.
  ValueId zero_point(size_t i, bool of_first) {
    const ValueId v = i < n_.inputs.size() ? n_.inputs[i] : -1;
    if (v < 0) return -1;
    const Dims shape = aligned_shape(v, of_first);
    if (!is_constant(g_, v)) return reshaped(cast(v, DType::i32), shape);
    const Tensor t = constant_of(g_, v).cast(DType::i32).reshaped(shape);
    return is_zero(t) ? -1 : constant("zero", t);
  }
  ValueId plus(ValueId zero, int shift) {
    if (zero < 0) return constant(DType::i32, shift);
    if (!is_constant(g_, zero)) return add("Add", {zero, constant(DType::i32, shift)});
    Tensor t = constant_of(g_, zero).clone();
    for (int64_t k = 0; k < t.size(); ++k) t.set_int(k, t.get_int(k) + shift);
    return is_zero(t) ? -1 : constant("zero", t);
  }
  static bool is_zero(const Tensor& t) {
    bool zero = true;
    for (int64_t k = 0; k < t.size(); ++k) zero = zero && t.get_int(k) == 0;
    return zero;
  }

  Dims per_filter(const Dim& filters) const {
    Dims out(type(n_.inputs[0]).shape.size() - 1, 1);
    out[0] = filters;
    return out;
  }
  Dims aligned_shape(ValueId v, bool of_first) const {
    const Dims& shape = type(v).shape;
    if (product(shape) == 1) return {};
    if (convolution_) return per_filter(product(shape));
    const bool per_row = of_first && shape.size() == 1 && type(weights()).shape.size() > 1;
    return per_row ? Dims{shape[0], 1} : shape;
  }
  ValueId aligned(ValueId v, bool of_first) { return reshaped(v, aligned_shape(v, of_first)); }

  // `v` plus `shift` in the other type of 8 bits; its zero point moves along.
  Operand shifted(ValueId v, ValueId zero, int shift, DType to) {
    if (type(v).dtype == to) return {v, zero};
    const ValueId sum = add("Add", {cast(v, DType::i32), constant(DType::i32, shift)});
    return {cast(sum, to), plus(zero, shift)};
  }

  ValueId integer_sum(ValueId za, ValueId zb) {
    const Operand a = shifted(n_.inputs[0], za, 128, DType::u8), b = shifted(weights(), zb, -128, DType::i8);
    std::vector<ValueId> terms;
    if (a.zero >= 0) terms.push_back(add("Mul", {a.zero, sum_of_second(b.value)}));
    if (b.zero >= 0) {
      ValueId of_first = sum_of_first(a);
      if (a.zero >= 0)  // sum a - K za
        of_first = add("Sub", {of_first, add("Mul", {a.zero, length_of_sum()})});
      terms.push_back(add("Mul", {b.zero, of_first}));
    }
    ValueId out = products(a, b.value);
    for (const ValueId t : terms) out = add("Sub", {out, t});
    return out;
  }

  ValueId products(const Operand& a, ValueId b) {
    if (!convolution_) return add("MatMulInteger", {a.value, b});
    std::vector<ValueId> inputs = {a.value, b};
    if (a.zero >= 0) inputs.push_back(cast(a.zero, DType::u8));
    Attrs attrs = n_.attrs;
    attrs.erase("kernel_shape");
    return add("ConvInteger", inputs, attrs, "nestor");
  }

  ValueId length_of_sum() {
    const Dim length = sum_length();
    if (!length.known()) return cast(size(length), DType::i32);
    return constant(DType::i32, static_cast<double>(static_cast<int64_t>(length)));
  }
  Dim sum_length() const {
    const Dims &a = type(n_.inputs[0]).shape, &w = type(weights()).shape;
    return convolution_ ? product(Dims(w.begin() + 1, w.end())) : a.back();
  }
  ValueId weights() const { return n_.inputs[linear_ ? 3 : 1]; }

  // Over the sum's terms, of the second operand: [1, N] or [O, 1, 1].
  ValueId sum_of_second(ValueId b) {
    const Dims shape = type(b).shape;  // a copy: values move when some are added
    const auto rank = static_cast<int64_t>(shape.size());
    Tensor axes(DType::i64, {convolution_ ? rank - 1 : 1});
    if (convolution_) {
      for (int64_t d = 1; d < rank; ++d) axes.set_int(d - 1, d);
    } else {
      axes.set_int(0, std::max<int64_t>(rank - 2, 0));
    }
    const bool keep = !convolution_ && shape.size() > 1 && type(n_.inputs[0]).shape.size() > 1;
    const ValueId list = constant("axes", axes);
    const ValueId sum = add("ReduceSum", {cast(b, DType::i32), list}, {{"keepdims", int64_t{keep}}});
    return convolution_ ? reshaped(sum, per_filter(shape[0])) : sum;
  }

  // Of the first: [M, 1], or [N, 1, H, W], a convolution with ones.
  ValueId sum_of_first(const Operand& a) {
    if (convolution_) {
      Dims shape = type(weights()).shape;
      shape[0] = 1;
      return products(a, filled("ones", DType::i8, shape, 1));
    }
    const Dims shape = type(a.value).shape;
    Tensor axes(DType::i64, {1});
    axes.set_int(0, static_cast<int64_t>(shape.size()) - 1);
    const bool keep = shape.size() > 1 && type(weights()).shape.size() > 1;
    const ValueId list = constant("axes", axes);
    return add("ReduceSum", {cast(a.value, DType::i32), list}, {{"keepdims", int64_t{keep}}});
  }

  // round((sum + bias) * (a_scale * b_scale / y_scale)) + y_zero, as a byte.
  void requantize(ValueId sum) {
    if (n_.inputs.size() > 8 && n_.inputs[8] >= 0) sum = add("Add", {sum, aligned(n_.inputs[8], false)});
    const ValueId product = add("Mul", {aligned(n_.inputs[1], true), aligned(n_.inputs[4], false)});
    const ValueId factor = add("Div", {product, aligned(n_.inputs[6], false)});
    add("QuantizeLinear",
        {add("Mul", {cast(sum, DType::f32), factor}), constant(DType::f32, 1), reshaped(n_.inputs[7], {})});
  }

  bool linear_, convolution_ = false;
};

bool is_quantized(const Graph& g, const Node& n) {
  const bool one =
      n.op == "MatMulInteger" || n.op == "ConvInteger" || n.op == "QLinearMatMul" || n.op == "QLinearConv";
  // Where groups have few channels, the sum of the first operand would be as much work as the product.
  return one && n.domain.empty() && OpContext(g, n).get_int("group", 1) == 1;
}

}  // namespace

void expand_quantized(Graph& g, const EvaluateFn&) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node n = g.nodes[i];
    if (is_quantized(g, n))
      ProductExpansion(g, n, nodes).run();
    else
      nodes.push_back(n);
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
