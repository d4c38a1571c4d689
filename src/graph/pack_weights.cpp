// Weights of 4 bits and less are for memory, which a product of few rows waits for. They stay packed, several
// in a byte: a MatMul or Gemm that reads a DequantizeLinear of constants is a MatMulPacked, which makes f32
// of them where it multiplies, and of rows that a Gather picks only these are unpacked. What else reads such
// a DequantizeLinear reads its f32, computed now.
//
//   y = MatMul(x, DequantizeLinear(q, s, z))          is  y = MatMulPacked(x, packed q, s, z)
//   y = Gather(DequantizeLinear(q, s, z), i)          is  y = DequantizeLinear(Unpack(Gather(packed q, i)),
//                                                                              Gather(s, i), Gather(z, i))
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

constexpr int64_t kSmall = 4096;    // elements that are worth no unpacking
constexpr int64_t kLeastBlock = 8;  // of what is split, as each part has a scale
constexpr double kMostWork = 1e10;  // of what leads to weights: a few seconds
constexpr int kOpset = 21;

// A matrix of integers of few bits. Element [i, j] is (number - zero) * scale, with one scale for each
// `block` rows of a column.
struct Weights {
  Tensor numbers, scale, zero;  // u8 [k, n]; a float type [k / block, n]; undefined, or u8 like the scale
  int64_t bits = 0, zero_of_all = 0;
};

using Indexing = std::function<int64_t(int64_t i, int64_t j)>;

// out[i, j] = t[at(i, j)] - least
Tensor picked(const Tensor& t, DType type, int64_t rows, int64_t columns, const Indexing& at, int64_t least) {
  Tensor out(type, {rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (is_float(type))
        out.set(i * columns + j, t.get(at(i, j)));
      else
        out.set_int(i * columns + j, t.get_int(at(i, j)) - least);
  return out;
}

// Rows of a matrix, several of them in one of bytes.
Tensor packed_rows(const Tensor& t, int64_t bits) {
  const int64_t per = 8 / bits, rows = t.shape()[0], columns = t.shape()[1];
  Tensor out(DType::u8, {rows / per, columns});
  const auto from = t.as<uint8_t>();
  const auto to = out.as<uint8_t>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[static_cast<size_t>(i / per * columns + j)] |=
          static_cast<uint8_t>(from[static_cast<size_t>(i * columns + j)] << (i % per * bits));
  return out;
}

// The same of columns: those of a row follow each other.
Tensor packed_columns(const Tensor& t, int64_t bits) {
  const int64_t per = 8 / bits;
  Tensor out(DType::u8, {t.shape()[0], t.shape()[1] / per});
  const auto from = t.as<uint8_t>();
  const auto to = out.as<uint8_t>();
  for (size_t i = 0; i < from.size(); ++i)
    to[i / static_cast<size_t>(per)] |=
        static_cast<uint8_t>(from[i] << (static_cast<int64_t>(i) % per * bits));
  return out;
}

// What to take off all numbers, and the bits that what is left needs; 8 where these are no few.
std::pair<int64_t, int64_t> range_of(const Tensor& t) {
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    low = std::min(low, t.get_int(i));
    high = std::max(high, t.get_int(i));
  }
  for (const int64_t bits : {2, 4})
    for (const int64_t least : {int64_t{0}, -(int64_t{1} << (bits - 1))})
      if (least <= low && high < least + (int64_t{1} << bits)) return {least, bits};
  return {0, 8};
}

class Packing {
 public:
  Packing(Graph& g, const EvaluateFn& evaluate) : g_(g), evaluate_(evaluate) {}

  void run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node n = g_.nodes[i];  // a copy: values move when some are added
      if (!multiply_packed(n) && !pick_packed(n)) nodes_.push_back(n);
    }
    replace_nodes(g_, std::move(nodes_));
    remove_dead_nodes(g_, {});
  }

 private:
  const TensorType& type(ValueId v) const { return value_of(g_, v).type; }
  const Node* maker(ValueId v) const {
    const int p = v >= 0 ? value_of(g_, v).producer : -1;
    return p >= 0 ? &g_.nodes[static_cast<size_t>(p)] : nullptr;
  }
  // The constant that v is or comes to; undefined where it depends on an input.
  Tensor known(ValueId v) {
    if (v < 0) return {};
    if (is_constant(g_, v)) return constant_of(g_, v);
    if (!maker(v)) return {};
    const Node n = *maker(v);
    for (const ValueId in : n.inputs)
      if (in >= 0 && !known(in).defined()) return {};
    return evaluate_node(g_, n, evaluate_, &work_) ? constant_of(g_, v) : Tensor();
  }
  // The same, in 16 bits where it is a cast of these.
  Tensor known_scale(ValueId v) {
    const Node* m = maker(v);
    const bool half = m && is_op(*m, "Cast") && ops::is_half(type(m->inputs[0]).dtype);
    return known(half ? m->inputs[0] : v);
  }

  // The DequantizeLinear of a matrix that v is, perhaps with its axes exchanged.
  std::optional<Node> dequantized(ValueId v, bool& exchanged) const {
    for (const Node* m = maker(v); m; m = maker(m->inputs[0])) {
      const TensorType& in = type(m->inputs[0]);
      if (is_op(*m, "DequantizeLinear"))
        return in.shape.size() == 2 && in.shape.known() && bytes_of(in.dtype) == 1 ? std::optional(*m)
                                                                                   : std::nullopt;
      if (is_op(*m, "Transpose") && in.shape.size() == 2)
        exchanged ^= transpose_perm(*m, 2)[0] == 1;
      else if (!is_op(*m, "Cast") && !is_op(*m, "Identity"))
        return std::nullopt;
    }
    return std::nullopt;
  }

  // Nullopt where the weights aren't known, have more bits, or scales within a block.
  std::optional<Weights> read(const Node& n, bool exchanged) {
    const std::vector<int64_t> shape = type(n.inputs[0]).shape.numbers();
    const int64_t k = shape[exchanged ? 1 : 0], columns = shape[exchanged ? 0 : 1];
    if (k * columns < kSmall) return std::nullopt;
    const Tensor q = known(n.inputs[0]), s = known_scale(n.inputs[1]);
    const ValueId zero = n.inputs.size() > 2 ? n.inputs[2] : -1;
    const Tensor z = known(zero);
    if (!q.defined() || !s.defined() || (zero >= 0 && !z.defined())) return std::nullopt;
    const OpContext ctx(g_, n);
    const int64_t size = ctx.get_int("block_size", 0);
    const int64_t axis = (ctx.get_int("axis", 1) & 1) ^ (exchanged ? 1 : 0);  // 0: along a column
    if (s.size() > 1 && axis == (size > 0 ? 1 : 0)) return std::nullopt;
    const auto [least, bits] = range_of(q);
    // The last block of a column may be shorter: then blocks of what it and the others are multiples of.
    const int64_t block = size > 0 ? std::gcd(size, k) : k, per = 8 / bits;
    if (bits == 8 || block % per != 0 || (block < size && block < kLeastBlock)) return std::nullopt;
    const Indexing of_number = [&](int64_t i, int64_t j) { return exchanged ? j * k + i : i * columns + j; };
    const int64_t blocks = k / block, scales = size > 0 ? (k + size - 1) / size : 1;
    const Indexing of_scale = [&](int64_t i, int64_t j) {
      const int64_t b = size > 0 ? i * block / size : 0;
      return s.size() == 1 ? 0 : exchanged ? j * scales + b : b * columns + j;
    };
    Weights w{picked(q, DType::u8, k, columns, of_number, least),
              picked(s, s.dtype(), blocks, columns, of_scale, 0),
              {},
              bits,
              -least};
    if (!z.defined()) return w;
    int64_t low = z.get_int(0), high = low;
    for (int64_t i = 1; i < z.size(); ++i) {
      low = std::min(low, z.get_int(i));
      high = std::max(high, z.get_int(i));
    }
    if (low - least < 0 || high - least > 255) return std::nullopt;
    if (low == high)
      w.zero_of_all = low - least;
    else
      w.zero = picked(z, DType::u8, blocks, columns, of_scale, least);
    return w;
  }

  // MatMul, and Gemm as alpha * A B + beta * C.
  bool multiply_packed(const Node& n) {
    const bool gemm = is_op(n, "Gemm");
    if (!gemm && !is_op(n, "MatMul")) return false;
    const OpContext ctx(g_, n);
    if (gemm && ctx.get_int("transA", 0) != 0) return false;
    bool exchanged = gemm && ctx.get_int("transB", 0) != 0;
    const std::optional<Node> from = dequantized(n.inputs[1], exchanged);
    const Node* left = maker(n.inputs[0]);
    if (!from || (left && is_op(*left, "DequantizeLinear"))) return false;  // a product of bytes
    const std::optional<Weights> w = read(*from, exchanged);
    if (!w) return false;
    const double alpha = gemm ? ctx.get_float("alpha", 1) : 1, beta = gemm ? ctx.get_float("beta", 1) : 1;
    const bool has_c = n.inputs.size() > 2 && n.inputs[2] >= 0 && beta != 0;
    const TensorType out = type(n.outputs[0]);
    const std::string name = value_of(g_, n.inputs[1]).name;
    Node y{"MatMulPacked", n.name, 1, {n.inputs[0]}, n.outputs, {{"bits", w->bits}}, "nestor"};
    y.inputs.push_back(add_constant(g_, name + ".packed", packed_rows(w->numbers, w->bits)));
    y.inputs.push_back(add_constant(g_, name + ".scale", w->scale));
    if (w->zero.defined())
      y.inputs.push_back(add_constant(g_, name + ".zero", w->zero));
    else
      y.attrs["zero"] = w->zero_of_all;
    std::vector<Node> behind;
    const auto then = [&](const char* op, ValueId with) {
      Node& before = behind.empty() ? y : behind.back();
      const ValueId v = before.outputs[0] = add_value(g_, value_of(g_, n.outputs[0]).name + ".part", out);
      behind.push_back({op, n.name, kOpset, {v, with}, n.outputs, {}, ""});
    };
    if (alpha != 1) then("Mul", scalar(alpha, out.dtype));
    if (has_c) {
      ValueId c = n.inputs[2];
      if (beta != 1) {
        c = add_value(g_, value_of(g_, c).name + ".scaled", type(c));
        nodes_.push_back({"Mul", n.name, kOpset, {n.inputs[2], scalar(beta, out.dtype)}, {c}, {}, ""});
      }
      then("Add", c);
    }
    nodes_.push_back(std::move(y));
    nodes_.insert(nodes_.end(), behind.begin(), behind.end());
    return true;
  }

  // A Gather of rows, whose scales lie along them.
  bool pick_packed(const Node& n) {
    if (!is_op(n, "Gather") || type(n.inputs[0]).shape.size() != 2) return false;
    const int64_t axis = OpContext(g_, n).get_int("axis", 0);
    bool exchanged = false;
    const std::optional<Node> from = dequantized(n.inputs[0], exchanged);
    if (!from || exchanged || (axis != 0 && axis != -2)) return false;
    const std::optional<Weights> w = read(*from, true);  // its rows as columns
    if (!w) return false;
    const int64_t k = w->numbers.shape()[0], rows = w->numbers.shape()[1], blocks = w->scale.shape()[0];
    const std::string name = value_of(g_, n.inputs[0]).name;
    const auto picked_rows = [&](const Tensor& columns, const std::string& what) {
      const Indexing turned = [&](int64_t i, int64_t j) { return j * rows + i; };
      Tensor t = picked(columns, columns.dtype(), rows, columns.shape()[0], turned, 0);
      if (what == ".packed") t = packed_columns(t, w->bits);
      Dims shape = type(n.outputs[0]).shape;
      shape.back() = t.shape()[1];
      const DType of = t.dtype();
      const ValueId v = add_value(g_, name + what + ".picked", {of, shape});
      nodes_.push_back({"Gather",
                        n.name,
                        n.opset,
                        {add_constant(g_, name + what, std::move(t)), n.inputs[1]},
                        {v},
                        {{"axis", int64_t{0}}},
                        ""});
      return v;
    };
    const ValueId bytes = picked_rows(w->numbers, ".packed");
    const ValueId q = add_value(g_, name + ".numbers", {DType::u8, type(n.outputs[0]).shape});
    nodes_.push_back({"Unpack", n.name, 1, {bytes}, {q}, {{"bits", w->bits}}, "nestor"});
    ValueId s = picked_rows(w->scale, ".scale"), z = -1;
    if (w->zero.defined()) {
      z = picked_rows(w->zero, ".zero");
    } else if (w->zero_of_all != 0) {
      Tensor t(DType::u8, w->scale.shape());
      for (int64_t i = 0; i < t.size(); ++i) t.set_int(i, w->zero_of_all);
      z = picked_rows(t, ".zero");
    }
    s = as_type(s, DType::f32);
    const DType wanted = type(n.outputs[0]).dtype;
    const ValueId y = wanted == DType::f32
                          ? n.outputs[0]
                          : add_value(g_, name + ".f32", {DType::f32, type(n.outputs[0]).shape});
    Node d{"DequantizeLinear", n.name, kOpset, {q, s}, {y}, {}, ""};
    if (z >= 0) d.inputs.push_back(z);
    d.attrs = {{"axis", int64_t{-1}}, {"block_size", k / blocks}};
    nodes_.push_back(std::move(d));
    if (wanted != DType::f32) cast(y, n.outputs[0]);
    return true;
  }

  ValueId scalar(double value, DType type) {
    Tensor t(type, {});
    t.set(0, value);
    return add_constant(g_, "scalar", std::move(t));
  }
  ValueId cast(ValueId v, ValueId to) {
    nodes_.push_back({"Cast", "", kOpset, {v}, {to}, {{"to", std::string(name_of(type(to).dtype))}}, ""});
    return to;
  }
  ValueId as_type(ValueId v, DType to) {
    if (type(v).dtype == to) return v;
    return cast(v, add_value(g_, value_of(g_, v).name, {to, type(v).shape}));
  }

  Graph& g_;
  const EvaluateFn& evaluate_;
  double work_ = kMostWork;
  std::vector<Node> nodes_;
};

}  // namespace

void pack_weights(Graph& g, const EvaluateFn& evaluate) {
  Packing(g, evaluate).run();
}

}  // namespace nestor
