// Concat, Split, Sum and their like of very many operands. A function of N pieces takes N blocks, which are
// scheduled and compiled in time quadratic in N, and more; so wide nodes are several of kMost, which mostly
// share a function. Sums go on where the last one ended: the order of additions stays. Concat and Split copy
// twice then, up to kMost * kMost pieces.
#include <algorithm>
#include <set>
#include <string>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"

namespace nestor {

namespace {

constexpr size_t kMost = 64, kWide = 128;

class WideSpeller : Expansion {
 public:
  using Expansion::Expansion;

  void run() {
    const OpContext ctx(g_, n_);
    if (n_.op == "Split")
      split_all(axis(ctx.get_int("axis", 0)));
    else if (n_.op == "Concat")
      give(0, concatenated(n_.inputs, axis(ctx.get_int("axis", 1)), kMost));
    else if (n_.op == "Mean")
      give(0, add("Div", {folded("Sum"),
                          constant(type(n_.outputs[0]).dtype, static_cast<double>(n_.inputs.size()))}));
    else
      give(0, folded(n_.op));
  }

 private:
  int64_t axis(int64_t a) const {
    return a < 0 ? a + static_cast<int64_t>(type(n_.inputs[0]).shape.size()) : a;
  }

  ValueId folded(const std::string& op) {
    ValueId so_far = n_.inputs[0];
    for (size_t i = 1; i < n_.inputs.size(); i += kMost - 1) {
      std::vector<ValueId> operands = {so_far};
      const size_t end = std::min(n_.inputs.size(), i + kMost - 1);
      operands.insert(operands.end(), n_.inputs.begin() + static_cast<std::ptrdiff_t>(i),
                      n_.inputs.begin() + static_cast<std::ptrdiff_t>(end));
      so_far = add(op, operands);
    }
    return so_far;
  }

  void split_all(int64_t axis) {
    for (const TensorType& t : find_op("", "Split", n_.opset)->infer(OpContext(g_, n_)))
      sizes_.push_back(t.shape[static_cast<size_t>(axis)]);
    split(n_.inputs[0], 0, sizes_.size(), axis);
  }

  // Outputs [first, end) are the pieces of v: at most kMost parts of it, which are split further.
  void split(ValueId v, size_t first, size_t end, int64_t axis) {
    size_t pieces = 1;  // of the node, in each part
    while (pieces * kMost < end - first) pieces *= kMost;
    std::vector<int64_t> sizes;
    for (size_t at = first; at < end; at += pieces) sizes.push_back(extent(at, std::min(end, at + pieces)));
    const std::vector<ValueId> parts =
        add_node("Split", {v, list(sizes)}, {{"axis", axis}}, "", sizes.size());
    if (pieces == 1) {
      for (size_t k = 0; k < parts.size(); ++k)
        if (wants(first + k)) nodes_.back().outputs[k] = n_.outputs[first + k];
      return;
    }
    for (size_t k = 0, at = first; k < parts.size(); ++k, at += pieces)
      split(parts[k], at, std::min(end, at + pieces), axis);
  }
  int64_t extent(size_t first, size_t end) const {
    int64_t sum = 0;
    for (size_t k = first; k < end; ++k) sum += sizes_[k];
    return sum;
  }

  std::vector<int64_t> sizes_;  // of all pieces
};

}  // namespace

bool spell_out_wide(Graph& g, const Node& n, std::vector<Node>& nodes) {
  static const std::set<std::string> kOps = {"Concat", "Max", "Mean", "Min", "Split", "Sum"};
  if (!n.domain.empty() || !kOps.count(n.op) || std::max(n.inputs.size(), n.outputs.size()) < kWide)
    return false;
  WideSpeller(g, n, nodes).run();
  return true;
}

bool drop_empty_parts(const Graph& g, const Node& n, std::vector<Node>& nodes) {
  if (!n.domain.empty() || n.op != "Concat" || n.inputs.size() < 2) return false;
  const int64_t axis = OpContext(g, n).get_int("axis", 1);
  const auto rank = static_cast<int64_t>(value_of(g, n.inputs[0]).type.shape.size());
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  Node less = n;
  std::erase_if(less.inputs, [&](ValueId v) {
    const Dim& size = value_of(g, v).type.shape[at];
    return size.known() && size == 0;
  });
  if (less.inputs.empty() || less.inputs.size() == n.inputs.size() || less.inputs.size() >= kWide)
    return false;
  if (less.inputs.size() == 1) less.op = "Identity", less.attrs.clear();
  nodes.push_back(std::move(less));
  return true;
}

}  // namespace nestor
