// An Einsum of two operands is a MatMul where each of its letters goes through a batch, along rows, along
// columns or along the sum: operands are transposed to [batch..., rows, sum] and [batch..., sum, columns],
// the result from [batch..., rows, columns]. What that moves fuses with its neighbours, or is an operand's
// own layout; and what is known of products, attention above all, is found in them. Others keep their own
// nest: a letter that an operand has twice, that one sums up alone, or whose dimension of 1 is repeated.
#include <algorithm>
#include <numeric>

#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/passes.h"
#include "src/ops/einsum.h"

namespace nestor {

namespace {

using Dims = std::vector<int64_t>;

// The letters of an Einsum of two operands by what a product of matrices does with them, each in the order of
// the result, those of the sum in the first operand's.
struct Letters {
  std::string batch, rows, columns, sum;
};

bool is_product(const ops::Einsum& e, const Graph& g, const Node& n, Letters& out) {
  if (e.operands.size() != 2 || !is_float(value_of(g, n.inputs[0]).type.dtype)) return false;
  const std::string &a = e.operands[0], &b = e.operands[1];
  for (size_t k = 0; k < 2; ++k) {
    const Dims& shape = value_of(g, n.inputs[k]).type.shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const char c = e.operands[k][d];
      if (std::count(e.operands[k].begin(), e.operands[k].end(), c) > 1 || shape[d] != e.extents.at(c))
        return false;
    }
  }
  const auto in = [](const std::string& s, char c) { return s.find(c) != std::string::npos; };
  for (const char c : e.result) (in(a, c) && in(b, c) ? out.batch : in(a, c) ? out.rows : out.columns) += c;
  for (const char c : e.summed()) {
    if (!in(a, c) || !in(b, c)) return false;
    out.sum += c;
  }
  return !out.sum.empty();
}

class EinsumExpansion : Expansion {
 public:
  EinsumExpansion(Graph& g, const Node& n, std::vector<Node>& nodes, ops::Einsum e, Letters l)
      : Expansion(g, n, nodes), e_(std::move(e)), l_(std::move(l)) {}

  void run() {
    const ValueId a = matrices(0, l_.rows, l_.sum), b = matrices(1, l_.sum, l_.columns);
    const ValueId product = add("MatMul", {a, b});
    const std::string made = l_.batch + l_.rows + l_.columns;
    const ValueId split = reshaped(product, extents(made));
    transposed(split, made, e_.result);
    finish();
  }

 private:
  Dims extents(const std::string& letters) const {
    Dims out;
    for (const char c : letters) out.push_back(e_.extents.at(c));
    return out;
  }
  int64_t count(const std::string& letters) const {
    const Dims all = extents(letters);
    return std::accumulate(all.begin(), all.end(), int64_t{1}, std::multiplies<>());
  }
  ValueId transposed(ValueId v, const std::string& from, const std::string& to) {
    if (from == to) return v;
    Dims perm;
    for (const char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
    return add("Transpose", {v}, {{"perm", perm}});
  }
  // Operand k as [batch..., first, second].
  ValueId matrices(size_t k, const std::string& first, const std::string& second) {
    const ValueId v = transposed(n_.inputs[k], e_.operands[k], l_.batch + first + second);
    Dims shape = extents(l_.batch);
    shape.insert(shape.end(), {count(first), count(second)});
    return reshaped(v, shape);
  }

  const ops::Einsum e_;
  const Letters l_;
};

}  // namespace

void multiply_einsums(Graph& g, const EvaluateFn&) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node n = g.nodes[i];
    Letters letters;
    if (n.op == "Einsum" && n.domain.empty()) {
      const ops::Einsum e = ops::parse_einsum(OpContext(g, n));
      if (is_product(e, g, n, letters)) {
        EinsumExpansion(g, n, nodes, e, letters).run();
        continue;
      }
    }
    nodes.push_back(n);
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
