#include "src/graph/expansion.h"

#include <algorithm>
#include <bit>

#include "nestor/ops.h"
#include "src/graph/edit.h"

namespace nestor {

// Values are found by looking at all once for each name, and then counted: there may be many steps.
ValueId Expansion::new_value(const std::string& part, TensorType type) {
  const auto made = std::find_if(n_.outputs.begin(), n_.outputs.end(), [](ValueId v) { return v >= 0; });
  NESTOR_CHECK(made != n_.outputs.end()) << n_.op << " without outputs";
  const std::string name = value_of(g_, *made).name + "." + part;
  const auto [at, fresh] = numbers_.try_emplace(part, 0);
  if (fresh) at->second = next_number(g_, name);
  g_.values.push_back({numbered(name, at->second++), std::move(type), {}, -1});
  return static_cast<ValueId>(g_.values.size()) - 1;
}

std::vector<ValueId> Expansion::add_node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs,
                                         const std::string& domain, size_t outputs) {
  constexpr int kOpset = 14;
  return append({op, n_.name, domain.empty() ? kOpset : 1, std::move(inputs), {}, std::move(attrs), domain},
                outputs);
}

std::vector<ValueId> Expansion::append(Node n, size_t outputs) {
  n.outputs.assign(outputs, -1);
  const std::vector<TensorType> made = find_op(n.domain, n.op, n.opset)->infer(OpContext(g_, n));
  for (size_t i = 0; i < outputs; ++i) n.outputs[i] = new_value(n.op, made[i]);
  nodes_.push_back(n);
  return n.outputs;
}

ValueId Expansion::add(const std::string& op, std::vector<ValueId> inputs, Attrs attrs,
                       const std::string& domain) {
  return add_node(op, std::move(inputs), std::move(attrs), domain, 1)[0];
}

void Expansion::give(size_t i, ValueId v) {
  add("Identity", {v});
  nodes_.back().outputs[0] = n_.outputs[i];
}

ValueId Expansion::sliced(ValueId v, int64_t axis, int64_t from, int64_t to, int64_t step) {
  return add("Slice", {v, list({from}), list({to}), list({axis}), list({step})});
}

ValueId Expansion::concatenated(std::vector<ValueId> v, int64_t axis, size_t most) {
  while (v.size() > 1) {
    std::vector<ValueId> fewer;
    for (size_t i = 0; i < v.size(); i += most) {
      const auto begin = v.begin() + static_cast<std::ptrdiff_t>(i),
                 end = v.begin() + static_cast<std::ptrdiff_t>(std::min(v.size(), i + most));
      fewer.push_back(end - begin == 1 ? *begin : add("Concat", {begin, end}, {{"axis", axis}}));
    }
    v = std::move(fewer);
  }
  return v[0];
}

std::vector<ValueId> Expansion::steps_of(ValueId v) {
  const int64_t n = type(v).shape[0], size = ceil_div(n, int64_t{kMostPieces});
  if (n == 1) return {v};
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < n; at += size) sizes.push_back(std::min(size, n - at));
  std::vector<ValueId> steps;
  for (ValueId piece : add_node("Split", {v, list(sizes)}, {{"axis", int64_t{0}}}, "", sizes.size()))
    for (ValueId step : steps_of(piece)) steps.push_back(step);
  return steps;
}

ValueId Expansion::constant(const std::string& part, Tensor t) {
  const ValueId v = new_value(part, {t.dtype(), t.shape()});
  value_of(g_, v).constant = std::move(t);
  return v;
}

ValueId Expansion::constant(DType t, double value) {
  const auto [at, fresh] = scalars_.try_emplace({t, std::bit_cast<uint64_t>(value)}, -1);
  if (fresh) {
    Tensor scalar(t, {});
    scalar.set(0, value);
    at->second = constant("constant", std::move(scalar));
  }
  return at->second;
}

constexpr int64_t kMostBytesMade = 1 << 20;

ValueId Expansion::filled(const std::string& part, DType t, const Dims& shape, double value) {
  const bool large = !shape.known() || product(shape) > kMostBytesMade / bytes_of(t);
  Tensor all(t, large ? std::vector<int64_t>{1} : shape.numbers());
  for (int64_t i = 0; i < all.size() && value != 0; ++i) all.set(i, value);
  return large ? add("ConstantOfShape", {list(shape)}, {{"value", all}}) : constant(part, std::move(all));
}

ValueId Expansion::counted(const std::string& part, const Dims& shape) {
  constexpr DType kType = DType::i64;
  const Dim n = product(shape);
  if (!n.known() || n > kMostBytesMade / bytes_of(kType)) {
    return reshaped(add("Range", {constant(kType, 0), size(n), constant(kType, 1)}), shape);
  }
  Tensor t(kType, shape);
  for (int64_t i = 0; i < n; ++i) t.set_int(i, i);
  return constant(part, std::move(t));
}

ValueId Expansion::list(const Dims& values) {
  const auto [at, fresh] = lists_.try_emplace(to_string(DType::i64, values), -1);
  if (!fresh) return at->second;
  if (values.known()) return at->second = constant("list", ints(values));
  const ValueId v = new_value("list", {DType::i64, {static_cast<int64_t>(values.size())}});
  value_of(g_, v).elements = values.exprs();
  return at->second = v;
}

ValueId Expansion::size(const Dim& value) {
  if (value.known()) return constant(DType::i64, static_cast<double>(static_cast<int64_t>(value)));
  const ValueId v = new_value("size", {DType::i64, {}});
  value_of(g_, v).elements = {value.expr()};
  return v;
}

ValueId Expansion::cast(ValueId v, DType to) {
  if (type(v).dtype == to) return v;
  return add("Cast", {v}, {{"to", std::string(name_of(to))}});
}

ValueId Expansion::reshaped(ValueId v, const Dims& shape) {
  if (type(v).shape == shape) return v;
  return add("Reshape", {v, list(shape)}, {{"allowzero", int64_t{1}}});
}

ValueId Expansion::transposed(ValueId v, const std::vector<int64_t>& perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return v;
  return add("Transpose", {v}, {{"perm", perm}});
}

Tensor ints(const std::vector<int64_t>& values) {
  Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t d = 0; d < values.size(); ++d) t.set_int(static_cast<int64_t>(d), values[d]);
  return t;
}

}  // namespace nestor
