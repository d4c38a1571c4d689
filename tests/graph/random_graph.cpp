#include "tests/graph/random_graph.h"

#include <algorithm>

#include "nestor/error.h"
#include "nestor/ops.h"

namespace nestor {

namespace {

constexpr int64_t kMostElements = 600;

}  // namespace

ValueId RandomGraph::value(TensorType type, Tensor constant) {
  g_.values.push_back({"v" + std::to_string(g_.values.size()), std::move(type), std::move(constant), -1});
  return static_cast<ValueId>(g_.values.size()) - 1;
}

ValueId RandomGraph::input(TensorType type) {
  g_.inputs.push_back(value(std::move(type)));
  return g_.inputs.back();
}

ValueId RandomGraph::known(DType dtype, std::vector<int64_t> shape, double low, double high) {
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i)
    t.set(i, low + (high - low) * static_cast<double>(below(1 << 20)) / (1 << 20));
  return value({dtype, t.shape()}, t);
}

ValueId RandomGraph::list(const std::vector<int64_t>& values) {
  Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.set_int(static_cast<int64_t>(i), values[i]);
  return value({DType::i64, t.shape()}, t);
}

ValueId RandomGraph::any(DType dtype, size_t least_rank) {
  std::vector<ValueId> all;
  for (size_t v = 0; v < g_.values.size(); ++v)
    if (g_.values[v].type.dtype == dtype && g_.values[v].type.shape.size() >= least_rank)
      all.push_back(static_cast<ValueId>(v));
  if (all.empty()) return -1;
  // Late ones more often, so that graphs are deep.
  return all[static_cast<size_t>(
      std::max(below(static_cast<int64_t>(all.size())), below(static_cast<int64_t>(all.size()))))];
}

ValueId RandomGraph::like(ValueId v) {
  std::vector<ValueId> all;
  for (size_t u = 0; u < g_.values.size(); ++u)
    if (g_.values[u].type == type(v)) all.push_back(static_cast<ValueId>(u));
  return one_in(3) ? v : one_of(all);
}

std::vector<ValueId> RandomGraph::several_like(ValueId v) {
  std::vector<ValueId> out = {like(v), like(v)};
  while (out.size() < 5 && !one_in(3)) out.push_back(one_in(2) ? one_of(out) : like(v));
  return out;
}

std::vector<ValueId> RandomGraph::node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs,
                                       size_t outputs, const std::string& domain) {
  if (std::count(inputs.begin(), inputs.end(), -2)) return {};
  Node n{op, "", domain.empty() ? 17 : 1, std::move(inputs), {}, std::move(attrs), domain};
  n.outputs.assign(outputs, -1);
  std::vector<TensorType> types;
  try {
    types = find_op(domain, op, n.opset)->infer(OpContext(g_, n));
  } catch (const UserError&) {
    return {};
  }
  for (size_t k = 0; k < outputs; ++k)
    if (product(types[k].shape) > kMostElements || product(types[k].shape) == 0) return {};
  for (size_t k = 0; k < outputs; ++k) {
    n.outputs[k] = value(types[k]);
    g_.values.back().producer = static_cast<int>(g_.nodes.size());
  }
  g_.nodes.push_back(n);
  return n.outputs;
}

void RandomGraph::elementwise() {
  const ValueId x = any(DType::f32);
  const ValueId scalar = known(DType::f32, {}, -1, 1);
  switch (below(8)) {
    case 0:
      node(one_of<std::string>({"Relu", "Neg", "Identity", "Dropout", "Abs", "Sigmoid"}), {x});
      break;
    case 1:
      node(one_of<std::string>({"Add", "Sub", "Mul"}), {x, one_in(3) ? scalar : like(x)});
      break;
    case 2:
      node(one_of<std::string>({"Add", "Sub", "Mul"}), {scalar, x});
      break;
    case 3:
      node(one_of<std::string>({"Sum", "Max", "Min", "Mean"}), several_like(x));
      break;
    case 4: {
      std::vector<ValueId> operands = several_like(x);
      operands.insert(operands.begin() + below(static_cast<int64_t>(operands.size())), scalar);
      node(one_of<std::string>({"Sum", "Max", "Min", "Mean"}), operands);
      break;
    }
    case 5: {
      const std::vector<ValueId> less = node("Less", {like(x), like(x)});
      if (!less.empty()) node("Where", {less[0], like(x), like(x)});
      break;
    }
    case 6: {
      const std::vector<ValueId> positive = node(one_of<std::string>({"Sigmoid", "Softmax"}), {x});
      if (!positive.empty()) node("Log", positive);
      break;
    }
    default:
      node("Clip", {x, known(DType::f32, {}, -2, -0.1), known(DType::f32, {}, 0.1, 2)});
  }
}

void RandomGraph::moves() {
  const DType dtype = one_of<DType>({DType::f32, DType::f32, DType::u8, DType::i8});
  const ValueId x = any(dtype, 1);
  if (x < 0) return;
  const std::vector<int64_t> shape = type(x).shape;  // a copy: values move when some are added
  const auto rank = static_cast<int64_t>(shape.size());
  switch (below(6)) {
    case 0: {
      std::vector<int64_t> perm;
      for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
      std::shuffle(perm.begin(), perm.end(), random_);
      node("Transpose", {x}, {{"perm", perm}});
      break;
    }
    case 1:
      node("Concat", several_like(x), {{"axis", below(rank)}});
      break;
    case 2:
      node("Flatten", {x}, {{"axis", below(rank + 1)}});
      break;
    case 3:
      node("Reshape", {x, list(one_in(2) ? shape : std::vector<int64_t>{-1})});
      break;
    case 4: {
      const int64_t axis = below(rank), size = shape[static_cast<size_t>(axis)], first = below(size + 1);
      if (first > 0 && first < size) node("Split", {x, list({first, size - first})}, {{"axis", axis}}, 2);
      break;
    }
    default: {
      const int64_t axis = below(rank), from = below(shape[static_cast<size_t>(axis)]);
      node("Slice", {x, list({from}), list({shape[static_cast<size_t>(axis)]}), list({axis})});
    }
  }
}

void RandomGraph::reduces() {
  const ValueId x = any(DType::f32, 1);
  if (x < 0) return;
  const auto rank = static_cast<int64_t>(type(x).shape.size());
  if (one_in(2)) {
    node(one_of<std::string>({"ReduceMean", "ReduceMax"}), {x},
         {{"axes", std::vector<int64_t>{below(rank)}}, {"keepdims", below(2)}});
  } else if (one_in(2)) {
    node("Softmax", {x}, {{"axis", below(rank)}});
  } else if (rank == 4) {
    node(one_of<std::string>({"MaxPool", "AveragePool"}), {x},
         {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{1 + below(2), 1}}});
  }
}

void RandomGraph::convolves() {
  const ValueId x = any(DType::f32, 4);
  if (x < 0 || type(x).shape.size() != 4) return;
  const int64_t channels = type(x).shape[1];
  if (one_in(4)) {
    const std::vector<int64_t> each = {channels};
    node("BatchNormalization", {x, known(DType::f32, each, 0.5, 1.5), known(DType::f32, each, -1, 1),
                                known(DType::f32, each, -1, 1), known(DType::f32, each, 0.5, 1.5)});
    return;
  }
  const bool transposed = one_in(3), depthwise = !transposed && one_in(4);
  const int64_t size = transposed  ? 4
                       : one_in(2) ? 1
                                   : 3,
                dilation = size == 3 && one_in(3) ? 6 : 1, pad = transposed ? 1 : size / 2 * dilation;
  Attrs attrs = {{"pads", std::vector<int64_t>(4, pad)}, {"dilations", std::vector<int64_t>(2, dilation)}};
  if (transposed) attrs["strides"] = std::vector<int64_t>{2, 2};
  if (depthwise) attrs["group"] = channels;
  const int64_t filters = depthwise ? channels : 1 + below(transposed ? 2 : 6);
  std::vector<int64_t> shape = {filters, depthwise ? 1 : channels, size, size};
  if (transposed) std::swap(shape[0], shape[1]);
  std::vector<ValueId> inputs = {x, known(DType::f32, shape, -0.5, 0.5)};
  if (one_in(2)) inputs.push_back(known(DType::f32, {filters}, -1, 1));
  const std::string op = transposed ? "ConvTranspose" : "Conv";
  const std::vector<ValueId> made = node(op, inputs, attrs);
  if (!made.empty() && one_in(4)) node(op, inputs, attrs);  // an equal node
}

void RandomGraph::multiplies() {
  const ValueId x = any(DType::f32, 2);
  if (x < 0 || type(x).shape.size() != 2) return;
  const int64_t rows = type(x).shape[0], columns = type(x).shape[1];
  if (rows == columns && one_in(2)) {
    const std::vector<ValueId> square = node(
        "Einsum", {x, like(x)}, {{"equation", one_of<std::string>({"ij,jk->ik", "ij,jk->ki", "ij,ij->i"})}});
    return;
  }
  const ValueId w = known(DType::f32, {columns, 1 + below(7)}, -0.5, 0.5);
  if (one_in(2))
    node("MatMul", {x, w});
  else
    node("Gemm", {x, w, known(DType::f32, {type(w).shape[1]}, -1, 1)});
}

// A scale and a zero point; of few scales, so that equal ones meet.
std::vector<ValueId> RandomGraph::step(DType zero) {
  if (steps_.size() < 3) steps_.push_back(known(DType::f32, {}, 0.01, 0.05));
  const ValueId scale = one_of(steps_);
  return {scale, one_in(2) ? value({zero, {}}, Tensor(zero, {})) : known(zero, {}, 0, 100)};
}

ValueId RandomGraph::bytes_of_real(ValueId v, DType to) {
  const std::vector<ValueId> s = step(to);
  const std::vector<ValueId> made = node("QuantizeLinear", {v, s[0], s[1]});
  return made.empty() ? -2 : made[0];
}

ValueId RandomGraph::real_of_bytes(ValueId v) {
  if (v < 0) return -2;
  const std::vector<ValueId> s = step(type(v).dtype);
  const std::vector<ValueId> made = node("DequantizeLinear", {v, s[0], s[1]});
  return made.empty() ? -2 : made[0];
}

void RandomGraph::quantizes() {
  const DType dtype = one_in(2) ? DType::u8 : DType::i8;
  switch (below(4)) {
    case 0:
      bytes_of_real(any(DType::f32), dtype);
      break;
    case 1:
      real_of_bytes(any(dtype));
      break;
    case 2: {  // bytes to bytes: a chain that passes look for
      ValueId x = real_of_bytes(any(dtype));
      for (int k = static_cast<int>(below(3)); k > 0 && x >= 0; --k) {
        const std::vector<ValueId> next =
            one_in(2) ? node("Relu", {x}) : node(one_in(2) ? "Add" : "Max", {x, real_of_bytes(any(dtype))});
        if (!next.empty()) x = next[0];
      }
      if (x >= 0) bytes_of_real(x, dtype);
      break;
    }
    default: {  // a product of bytes
      const ValueId x = real_of_bytes(any(dtype, 2));
      if (x < 0) return;
      const auto shape = type(x).shape;
      const bool image = shape.size() == 4;
      if (!image && shape.size() != 2) return;
      const std::vector<int64_t> of =
          image ? std::vector<int64_t>{3, shape[1], 3, 3} : std::vector<int64_t>{shape[1], 3};
      const ValueId w = real_of_bytes(known(DType::i8, of, -100, 100));
      const std::vector<ValueId> made = image ? node("Conv", {x, w}) : node("MatMul", {x, w});
      if (!made.empty()) bytes_of_real(made[0], dtype);
    }
  }
}

// From f32 to 16 bits, through something, and back.
void RandomGraph::halves() {
  const int64_t to = one_in(2) ? 10 : 16;
  const ValueId x = any(DType::f32, 1);
  if (x < 0) return;
  std::vector<ValueId> made = node("Cast", {x}, {{"to", to}});
  const std::vector<int64_t> shape = type(x).shape;
  const DType half = type(made[0]).dtype;
  const auto weights = [&](std::vector<int64_t> of) { return known(half, std::move(of), -0.5, 0.5); };
  if (shape.size() == 4) {
    made = node("Conv", {made[0], weights({3, shape[1], 3, 3}), weights({3})});
  } else if (shape.size() == 2) {
    made = node("MatMul", {made[0], one_in(2) ? weights({shape[1], 4}) : made[0]});
  } else {
    made = node("Concat", {made[0], made[0]}, {{"axis", int64_t{0}}});
  }
  if (made.empty()) return;
  ValueId y = node("Cast", {made[0]}, {{"to", int64_t{1}}})[0];
  if (one_in(3)) return;
  if (const auto next = one_in(2)   ? node("Relu", {y})
                        : one_in(2) ? node("Sigmoid", {y})
                                    : node("Transpose", {y});
      !next.empty())
    y = next[0];
  node("Cast", {node("Cast", {y}, {{"to", to}})[0]}, {{"to", int64_t{1}}});
}

// A node once more, on the same values.
void RandomGraph::repeats() {
  if (g_.nodes.empty()) return;
  const Node n = one_of(g_.nodes);
  node(n.op, n.inputs, n.attrs, n.outputs.size(), n.domain);
}

Graph RandomGraph::make(int nodes, bool with_halves) {
  const std::vector<int64_t> image = {1, 4, 5, 5}, matrix = {6, 6};
  input({DType::f32, image});
  input({DType::f32, image});
  input({DType::f32, {1, 16, 6, 6}});
  input({DType::f32, matrix});
  input({DType::u8, image});
  input({DType::i8, matrix});
  known(DType::f32, image, -1, 1);
  known(DType::f32, matrix, -1, 1);
  known(DType::u8, image, 0, 255);
  for (int tries = 0; static_cast<int>(g_.nodes.size()) < nodes && tries < 20 * nodes; ++tries) {
    switch (below(8)) {
      case 0:
      case 1:
        elementwise();
        break;
      case 2:
        moves();
        break;
      case 3:
        reduces();
        break;
      case 4:
        convolves();
        break;
      case 5:
        multiplies();
        break;
      case 6:
        with_halves ? halves() : quantizes();
        break;
      default:
        repeats();
    }
  }
  // The last values, and some of any kind: inputs and constants among them.
  for (size_t v = 0; v < g_.values.size(); ++v)
    if (v + 2 >= g_.values.size() || one_in(4)) g_.outputs.push_back(static_cast<ValueId>(v));
  std::shuffle(g_.outputs.begin(), g_.outputs.end(), random_);
  return std::move(g_);
}

}  // namespace nestor
