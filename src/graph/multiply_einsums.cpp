// An Einsum of two operands is a MatMul where each of its letters goes through a batch, along rows, along
// columns or along the sum: operands are transposed to [batch..., rows, sum] and [batch..., sum, columns],
// the result from [batch..., rows, columns]. What that moves fuses with its neighbours, or is an operand's
// own layout; and what is known of products, attention above all, is found in them. A letter that one operand
// has for itself, and the result doesn't, is summed up first. Of several operands two are multiplied at a
// time, those whose product is the least work, unless what comes of it is larger than anything that is there.
//
// Others keep their own nest: integers, letters that an operand has twice, dimensions of 1 that are repeated
// or of 0, products without a sum.
#include <algorithm>
#include <map>

#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/passes.h"
#include "src/ops/einsum.h"

namespace nestor {

namespace {

// The letters of two operands by what a product of matrices does with them, each in the order of the result,
// those of the sum in the first operand's.
struct Letters {
  std::string batch, rows, columns, sum;
};

// Two operands, and what they have that the result or another operand wants.
struct Pair {
  size_t a = 0, b = 1;
  std::string letters;
  double work = 0;
};

bool has(const std::string& letters, char c) {
  return letters.find(c) != std::string::npos;
}

Dim extent_of(const ops::Einsum& e, const std::string& letters) {
  Dim n = 1;
  for (const char c : letters) n *= e.extents.at(c);
  return n;
}

// Floats, of which no letter comes twice in an operand, and each has one extent, not 0.
bool is_plain(const ops::Einsum& e, const Graph& g, const Node& n) {
  for (size_t k = 0; k < e.operands.size(); ++k) {
    const TensorType& t = value_of(g, n.inputs[k]).type;
    if (!is_float(t.dtype)) return false;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      const char c = e.operands[k][d];
      const bool twice = std::count(e.operands[k].begin(), e.operands[k].end(), c) > 1;
      if (twice || t.shape[d] == 0 || t.shape[d] != e.extents.at(c)) return false;
    }
  }
  return true;
}

class EinsumExpansion : Expansion {
 public:
  EinsumExpansion(Graph& g, const Node& n, std::vector<Node>& nodes, ops::Einsum e)
      : Expansion(g, n, nodes), e_(std::move(e)), values_(n.inputs) {}

  // False where nothing is gained, and nothing was appended.
  bool run() {
    if (e_.operands.size() < 2) return false;
    const size_t before = nodes_.size();
    for (size_t k = 0; k < e_.operands.size(); ++k) sum_alone(k);
    while (e_.operands.size() > 2) {
      const Pair p = least_work();
      if (is_larger(p)) break;
      replace(p, multiplied(p.a, p.b, p.letters));
    }
    if (e_.operands.size() == 2 && !split(0, 1, e_.result).sum.empty())
      multiplied(0, 1, e_.result);
    else if (nodes_.size() > before)
      einsum(values_, e_.operands, e_.result);
    else
      return false;
    finish();
    return true;
  }

 private:
  Letters split(size_t a, size_t b, const std::string& result) const {
    const std::string &of_a = e_.operands[a], &of_b = e_.operands[b];
    Letters out;
    for (const char c : result)
      (has(of_a, c) && has(of_b, c) ? out.batch : has(of_a, c) ? out.rows : out.columns) += c;
    for (const char c : of_a)
      if (has(of_b, c) && !has(result, c)) out.sum += c;
    return out;
  }

  // Whether the result has a letter, or an operand but those two.
  bool is_wanted(char c, size_t a, size_t b) const {
    bool wanted = has(e_.result, c);
    for (size_t k = 0; k < e_.operands.size(); ++k) wanted |= k != a && k != b && has(e_.operands[k], c);
    return wanted;
  }
  // Letters of operand k that nothing else has.
  void sum_alone(size_t k) {
    std::string kept;
    Dims axes;
    for (size_t d = 0; d < e_.operands[k].size(); ++d) {
      const char c = e_.operands[k][d];
      if (is_wanted(c, k, k))
        kept += c;
      else
        axes.push_back(static_cast<int64_t>(d));
    }
    if (axes.empty()) return;
    values_[k] = add("ReduceSum", {values_[k], constant("axes", ints(axes))}, {{"keepdims", int64_t{0}}});
    e_.operands[k] = kept;
  }

  Pair least_work() const {
    Pair best;
    for (size_t a = 0; a < e_.operands.size(); ++a)
      for (size_t b = a + 1; b < e_.operands.size(); ++b) {
        std::string all = e_.operands[a];
        for (const char c : e_.operands[b])
          if (!has(all, c)) all += c;
        Pair p{a, b, "", 1};
        for (const char c : all) {
          p.work *= static_cast<double>(e_.extents.at(c).typical());
          if (is_wanted(c, a, b)) p.letters += c;
        }
        const bool less = p.work < best.work ||
                          (p.work == best.work &&
                           extent_of(e_, p.letters).typical() < extent_of(e_, best.letters).typical());
        if (best.work == 0 || less) best = p;
      }
    return best;
  }
  bool is_larger(const Pair& p) const {
    int64_t most = extent_of(e_, e_.result).typical();
    for (const std::string& letters : e_.operands) most = std::max(most, extent_of(e_, letters).typical());
    double made = 1;
    for (const char c : p.letters) made *= static_cast<double>(e_.extents.at(c).typical());
    return made > static_cast<double>(most);
  }
  void replace(const Pair& p, ValueId made) {
    values_[p.a] = made;
    e_.operands[p.a] = p.letters;
    values_.erase(values_.begin() + static_cast<int64_t>(p.b));
    e_.operands.erase(e_.operands.begin() + static_cast<int64_t>(p.b));
  }

  // An Einsum that stays one.
  ValueId einsum(const std::vector<ValueId>& values, const std::vector<std::string>& operands,
                 const std::string& result) {
    std::map<char, char> names;  // digits that stand for dots aren't letters of an equation
    const auto named = [&](const std::string& letters) {
      std::string out;
      for (const char c : letters) {
        const auto n = static_cast<char>(names.size());
        out += names.emplace(c, n < 26 ? 'a' + n : 'A' + n - 26).first->second;
      }
      return out;
    };
    std::string equation;
    for (size_t k = 0; k < operands.size(); ++k) equation += (k ? "," : "") + named(operands[k]);
    return add("Einsum", values, {{"equation", equation + "->" + named(result)}});
  }

  ValueId multiplied(size_t a, size_t b, const std::string& result) {
    const Letters l = split(a, b, result);
    if (l.sum.empty()) return einsum({values_[a], values_[b]}, {e_.operands[a], e_.operands[b]}, result);
    const ValueId first = matrices(a, l.batch, l.rows, l.sum),
                  second = matrices(b, l.batch, l.sum, l.columns);
    const std::string made = l.batch + l.rows + l.columns;
    return transposed(reshaped(add("MatMul", {first, second}), extents(made)), made, result);
  }
  Dims extents(const std::string& letters) const {
    Dims out;
    for (const char c : letters) out.push_back(e_.extents.at(c));
    return out;
  }
  ValueId transposed(ValueId v, const std::string& from, const std::string& to) {
    Dims perm;
    for (const char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
    return Expansion::transposed(v, perm);
  }
  // Operand k as [batch..., first, second].
  ValueId matrices(size_t k, const std::string& batch, const std::string& first, const std::string& second) {
    Dims shape = extents(batch);
    shape.insert(shape.end(), {extent_of(e_, first), extent_of(e_, second)});
    return reshaped(transposed(values_[k], e_.operands[k], batch + first + second), shape);
  }

  ops::Einsum e_;
  std::vector<ValueId> values_;  // of the operands
};

}  // namespace

void multiply_einsums(Graph& g, const EvaluateFn&) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node n = g.nodes[i];
    if (n.op == "Einsum" && n.domain.empty()) {
      const ops::Einsum e = ops::parse_einsum(OpContext(g, n));
      if (is_plain(e, g, n) && EinsumExpansion(g, n, nodes, e).run()) continue;
    }
    nodes.push_back(n);
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
