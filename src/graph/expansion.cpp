#include "src/graph/expansion.h"

#include <algorithm>

#include "nestor/ops.h"
#include "src/graph/edit.h"

namespace nestor {

std::string Expansion::name(const std::string& part) const {
  return value_of(g_, n_.outputs[0]).name + "." + part;
}

ValueId Expansion::add(const std::string& op, std::vector<ValueId> inputs, Attrs attrs,
                       const std::string& domain) {
  constexpr int kOpset = 14;
  Node n{op, n_.name, domain.empty() ? kOpset : 1, std::move(inputs), {}, std::move(attrs), domain};
  const TensorType made = find_op(n.domain, op, n.opset)->infer(OpContext(g_, n))[0];
  const ValueId v = add_value(g_, name(op), made);
  n.outputs = {v};
  nodes_.push_back(std::move(n));
  return v;
}

ValueId Expansion::constant(const std::string& part, Tensor t) {
  return add_constant(g_, name(part), std::move(t));
}

ValueId Expansion::constant(DType t, double value) {
  Tensor scalar(t, {});
  scalar.set(0, value);
  return constant("constant", std::move(scalar));
}

ValueId Expansion::cast(ValueId v, DType to) {
  if (type(v).dtype == to) return v;
  return add("Cast", {v}, {{"to", std::string(name_of(to))}});
}

ValueId Expansion::reshaped(ValueId v, const std::vector<int64_t>& shape) {
  if (type(v).shape == shape) return v;
  return add("Reshape", {v, constant("shape", ints(shape))}, {{"allowzero", int64_t{1}}});
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
