// What only moves elements, or picks the largest, does so with the bytes that stand for them: a quarter of
// the memory, and lanes for four times as many. A DequantizeLinear goes behind such nodes, and where a
// QuantizeLinear with its step makes bytes of its result again, both are gone: (s q) / s is q or a rounding
// apart from it, and is rounded to q.
//
// Steps are positive, else the largest byte wouldn't stand for the largest element. Several steps move with
// their axis where it is transposed; other nodes are passed with one only.
#include <algorithm>
#include <map>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/fold_budget.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

constexpr double kMostWork = 1e10;  // of weights that are moved: a few seconds

ValueId zero_of(const Node& n) {
  return n.inputs.size() > 2 ? n.inputs[2] : -1;
}

bool same_constant(const Graph& g, ValueId a, ValueId b) {
  if (a == b) return true;
  if (!is_constant(g, a) || !is_constant(g, b)) return false;
  const Tensor &x = constant_of(g, a), &y = constant_of(g, b);
  bool same = x.dtype() == y.dtype() && x.size() == y.size();
  for (int64_t k = 0; same && k < x.size(); ++k) same = x.get(k) == y.get(k);
  return same;
}

bool steps_are_positive(const Graph& g, ValueId scale) {
  const Tensor& t = constant_of(g, scale);
  for (int64_t k = 0; k < t.size(); ++k)
    if (!(t.get(k) > 0)) return false;
  return true;
}

// DequantizeLinear and QuantizeLinear of 8 bits and constant steps.
bool is_plain(const Graph& g, const Node& n, ValueId bytes) {
  return bytes_of(value_of(g, bytes).type.dtype) == 1 && is_constant(g, n.inputs[1]) &&
         steps_are_positive(g, n.inputs[1]) && OpContext(g, n).get_int("block_size", 0) == 0;
}
bool has_one_step(const Graph& g, const Node& n) {
  return constant_of(g, n.inputs[1]).size() == 1;
}

// Whether a and b, one of them from bytes and one to bytes or both alike, have the same steps.
bool same_steps(const Graph& g, const Node& a, const Node& b) {
  return has_one_step(g, a) && has_one_step(g, b) && same_constant(g, a.inputs[1], b.inputs[1]) &&
         (zero_of(a) < 0 ? zero_of(b) < 0 : zero_of(b) >= 0 && same_constant(g, zero_of(a), zero_of(b)));
}

// How many inputs, from the first on, are data; 0: the node does more than move them.
size_t moved_inputs(const Node& n) {
  static const char* const kMoves[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",     "Slice",
                                       "Expand",  "Tile",    "Gather",  "Split",     "GatherElements"};
  if (is_op(n, "Concat")) return n.inputs.size();
  if (is_op(n, "MaxPool"))
    return std::all_of(n.outputs.begin() + 1, n.outputs.end(), [](ValueId v) { return v < 0; });
  return std::any_of(std::begin(kMoves), std::end(kMoves), [&](const char* op) { return is_op(n, op); });
}

// n reads bytes, and a DequantizeLinear like `from` makes of each of its outputs what it was.
class MovedExpansion : Expansion {
 public:
  using Expansion::Expansion;

  std::vector<Node> run(const std::vector<Node>& from, FoldBudget& budget, const EvaluateFn& evaluate) {
    Node moved = n_;
    for (size_t i = 0; i < from.size(); ++i) moved.inputs[i] = from[i].inputs[0];
    std::vector<Node> out;
    for (ValueId& v : moved.outputs) {
      if (v < 0) continue;
      Node behind = from[0];
      if (!has_one_step(g_, behind)) behind.attrs["axis"] = moved_axis(behind);
      behind.outputs = {v};
      v = add_value(g_, value_of(g_, v).name + ".bytes", {type(from[0].inputs[0]).dtype, type(v).shape});
      behind.inputs[0] = v;
      out.push_back(std::move(behind));
    }
    if (!budget.fold(g_, moved, evaluate)) nodes_.push_back(std::move(moved));  // of weights: known now
    nodes_.insert(nodes_.end(), out.begin(), out.end());
    return out;
  }

 private:
  int64_t moved_axis(const Node& from) const {
    const std::vector<int64_t> perm = transpose_perm(n_, type(n_.inputs[0]).shape.size());
    return std::find(perm.begin(), perm.end(), scale_axis(g_, from)) - perm.begin();
  }
};

}  // namespace

void move_bytes(Graph& g, const EvaluateFn& evaluate) {
  FoldBudget budget(g, kMostWork);
  std::vector<Node> nodes;
  std::map<ValueId, Node> dequantized;  // by result
  std::map<ValueId, ValueId> same;      // bytes by what they turned out to be
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node n = g.nodes[i];  // a copy: values move when some are added
    for (ValueId& v : n.inputs)
      if (const auto it = same.find(v); it != same.end()) v = it->second;
    if (is_op(n, "DequantizeLinear") && is_plain(g, n, n.inputs[0])) {
      dequantized[n.outputs[0]] = n;
    } else if (is_op(n, "QuantizeLinear") && is_plain(g, n, n.outputs[0])) {
      const auto from = dequantized.find(n.inputs[0]);
      if (from != dequantized.end() && same_steps(g, from->second, n) && !is_output(g, n.outputs[0]) &&
          value_of(g, from->second.inputs[0]).type.dtype == value_of(g, n.outputs[0]).type.dtype) {
        same[n.outputs[0]] = from->second.inputs[0];
        continue;
      }
    } else if (const size_t count = moved_inputs(n); count > 0) {
      std::vector<Node> from;
      for (size_t k = 0; k < count; ++k) {
        const auto it = dequantized.find(n.inputs[k]);
        if (it == dequantized.end() || (k > 0 && !same_steps(g, from[0], it->second))) break;
        from.push_back(it->second);
      }
      if (from.size() == count && (has_one_step(g, from[0]) || is_op(n, "Transpose"))) {
        for (const Node& d : MovedExpansion(g, n, nodes).run(from, budget, evaluate))
          dequantized[d.outputs[0]] = d;
        continue;
      }
    }
    nodes.push_back(std::move(n));
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
