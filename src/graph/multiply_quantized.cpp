// A product of what bytes stand for is a product of bytes: with x = sx (qx - zx) and w = sw (qw - zw),
//
//   sum x w  =  sx sw  sum (qx - zx) (qw - zw)
//
// whose sum is exact in integers, unless it is so long that an i32 might not hold it, and for which machines
// have instructions. That is how quantized models are written: DequantizeLinear before each Conv, Gemm or
// MatMul, QuantizeLinear behind it. The weights must be constant: bytes of a second operand that comes at run
// time would have to be rearranged each time, and the products of attention are better left to the functions
// that fuse them. Groups of a convolution have sums too short for it; these read bytes and multiply numbers
// (DequantizedConv), with all scales in the weights.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

// A DequantizeLinear of 8 bits: its inputs.
struct Quantized {
  ValueId bytes, scale, zero = -1;
  int64_t axis = 0;  // of several scales
  bool single;       // one scale
};

// A scale that is infinite or NaN makes NaN of some bytes, which a sum of bytes knows nothing of.
bool is_finite(const Graph& g, ValueId scale) {
  if (!is_constant(g, scale)) return true;
  const Tensor& t = constant_of(g, scale);
  for (int64_t i = 0; i < t.size(); ++i)
    if (!std::isfinite(t.get(i))) return false;
  return true;
}

std::optional<Quantized> read_quantized(const Graph& g, ValueId v) {
  if (v < 0 || value_of(g, v).producer < 0) return std::nullopt;
  const Node& n = g.nodes[static_cast<size_t>(value_of(g, v).producer)];
  if (!is_op(n, "DequantizeLinear")) return std::nullopt;
  const OpContext ctx(g, n);
  const TensorType& x = ctx.input(0);
  if (bytes_of(x.dtype) != 1 || ctx.get_int("block_size", 0) != 0) return std::nullopt;
  if (!is_finite(g, n.inputs[1])) return std::nullopt;
  return Quantized{n.inputs[0], n.inputs[1], n.inputs.size() > 2 ? n.inputs[2] : -1, scale_axis(g, n),
                   product(ctx.input(1).shape) == 1};
}

// Constant weights, quantized as a whole or by filter or column, whose scales lie on `axis`.
bool are_weights(const Graph& g, const Quantized& w, int64_t axis) {
  return is_constant(g, w.bytes) && (w.single || w.axis == axis);
}

struct Product {
  Quantized x, w;
};

// Whether floats are faster, where no instruction multiplies bytes and adds them up: by pairs of 16 bits
// these take three quarters of the time, and Winograd's transform of floats a half; of a few channels bytes
// take twice as long. (ResNet-18 by AVX2: 23.2 to 14 ms.)
bool suits_floats(const Graph& g, const Node& n, const OptimizeOptions& options) {
  constexpr int64_t kLeastChannels = 16, kLeastImage = 7, kGroup = 4;
  if (options.dots) return false;
  const OpContext ctx(g, n);
  const Dims &w = ctx.input(1).shape, &y = ctx.output(0).shape;
  if (ctx.get_int("group", 1) > 1) return false;  // multiplies floats in any case
  if (w[1] < kGroup) return true;
  return options.winograd && has_winograd_shape(g, n) && std::min(w[0], w[1]) >= kLeastChannels &&
         std::min(y[2], y[3]) >= kLeastImage;
}

// Whether no sum comes near the end of an i32: each term is at most 255 times what a byte of weights is away
// from its zero point.
bool fits_i32(const Graph& g, const Quantized& w, int64_t filters, bool filters_last) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const Tensor& t = constant_of(g, w.bytes);
  if (filters == 0 || 255 * 255 * (t.size() / filters) <= kMost) return true;
  if (w.zero >= 0 && !is_constant(g, w.zero)) return false;
  std::vector<int64_t> sums(static_cast<size_t>(filters), 0);
  for (int64_t i = 0; i < t.size(); ++i) {
    const int64_t filter = filters_last ? i % filters : i / (t.size() / filters);
    const int64_t zero = w.zero < 0 ? 0 : constant_of(g, w.zero).get_int(w.single ? 0 : filter);
    sums[static_cast<size_t>(filter)] += 255 * std::abs(t.get_int(i) - zero);
  }
  return std::all_of(sums.begin(), sums.end(), [](int64_t sum) { return sum <= kMost; });
}

std::optional<Product> read_product(const Graph& g, const Node& n, const OptimizeOptions& options) {
  const bool conv = is_op(n, "Conv"), gemm = is_op(n, "Gemm");
  if (!conv && !gemm && !is_op(n, "MatMul")) return std::nullopt;
  const auto x = read_quantized(g, n.inputs[0]), w = read_quantized(g, n.inputs[1]);
  if (!x || !w || !x->single) return std::nullopt;
  const OpContext ctx(g, n);
  const Dims& shape = ctx.input(1).shape;
  if (conv) {
    if (suits_floats(g, n, options)) return std::nullopt;
    const bool exact = are_weights(g, *w, 0) && fits_i32(g, *w, shape[0], false);
    return exact ? std::optional(Product{*x, *w}) : std::nullopt;
  }
  if (shape.size() != 2 || ctx.input(0).shape.empty()) return std::nullopt;
  if (gemm && (ctx.get_int("transA", 0) != 0 || ctx.get_float("alpha", 1) != 1 ||
               ctx.get_float("beta", 1) != 1 || n.opset < 7))
    return std::nullopt;
  const bool transposed = gemm && ctx.get_int("transB", 0) != 0;
  const bool exact =
      are_weights(g, *w, transposed ? 0 : 1) && fits_i32(g, *w, shape[transposed ? 0 : 1], !transposed);
  return exact ? std::optional(Product{*x, *w}) : std::nullopt;
}

class BytesExpansion : Expansion {
 public:
  using Expansion::Expansion;

  void run(const Product& p) {
    if (n_.op == "Conv" && OpContext(g_, n_).get_int("group", 1) > 1) {
      real_sum(p);
      return finish();
    }
    const ValueId sum = cast(integer_sum(p), DType::f32);
    const ValueId scale = add("Mul", {p.x.scale, along_filters(p.w.scale)});
    add_bias(add("Mul", {sum, scale}, {{kOfReals, int64_t{1}}}));
    finish();
  }

 private:
  void add_bias(ValueId sum) {
    if (n_.inputs.size() > 2 && n_.inputs[2] >= 0)
      add("Add", {sum, n_.op == "Conv" ? along_filters(n_.inputs[2]) : n_.inputs[2]});
  }

  void real_sum(const Product& p) {
    const ValueId w = add("Mul", {n_.inputs[1], reshaped(p.x.scale, {})});
    std::vector<ValueId> inputs = {p.x.bytes, w};
    if (p.x.zero >= 0) inputs.push_back(reshaped(p.x.zero, {}));
    add_bias(add("DequantizedConv", inputs, n_.attrs, "nestor"));
  }

  // One for each filter of an image, or for each column.
  ValueId along_filters(ValueId v) {
    const int64_t count = product(type(v).shape);
    if (count == 1) return reshaped(v, {});
    if (n_.op != "Conv") return reshaped(v, {count});
    Dims shape(type(n_.inputs[0]).shape.size() - 1, 1);
    shape[0] = count;
    return reshaped(v, shape);
  }

  ValueId integer_sum(const Product& p) {
    const bool conv = n_.op == "Conv";
    ValueId w = p.w.bytes;
    if (n_.op == "Gemm" && OpContext(g_, n_).get_int("transB", 0) != 0) w = add("Transpose", {w});
    std::vector<ValueId> inputs = {p.x.bytes, w};
    if (p.x.zero >= 0 || p.w.zero >= 0) inputs.push_back(p.x.zero >= 0 ? reshaped(p.x.zero, {}) : -1);
    if (p.w.zero >= 0) inputs.push_back(p.w.single ? reshaped(p.w.zero, {}) : p.w.zero);
    return add(conv ? "ConvInteger" : "MatMulInteger", inputs, conv ? n_.attrs : Attrs());
  }
};

}  // namespace

void multiply_quantized(Graph& g, const EvaluateFn&, const OptimizeOptions& options) {
  std::vector<std::optional<Product>> products;
  for (const Node& n : g.nodes) products.push_back(read_product(g, n, options));
  std::vector<Node> nodes;
  for (size_t i = 0; i < products.size(); ++i) {
    const Node n = g.nodes[i];  // a copy: values move when some are added
    if (products[i])
      BytesExpansion(g, n, nodes).run(*products[i]);
    else
      nodes.push_back(n);
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
