// Fusion by operator patterns, along post-dominators (as in Roesch et al., "Relay", 2018, and TVM's FuseOps).
//
// A node may join its immediate post-dominator d, the first node that every path from it to the outputs
// passes, if all nodes on those paths may join too. Then only the results of a group's last node, the sink,
// are read outside of the group. Every path out of a group starts at its sink, so no path can return: there
// are no cycles between groups.
//
// Which nodes may join, for a group with sink s and its post-dominator d:
//  - around an anchor (MatMul, Conv): element-wise nodes of the anchor's shape after it. They become its
//    epilogue; their other operand (a residual) comes from outside. A group has one anchor.
//  - element-wise and injective chains join their reader if it is an element-wise or injective node, a
//    reduction (which ends the chain), or an epilogue of the same shape; but not if the reader would compute
//    them several times, by broadcasting.
//  - after a reduction: element-wise nodes of its shape.
//  - a Softmax between two MatMuls: all three groups become one (attention), if the target has schedules for
//    it.
//  - opaque nodes stay alone.
#include "src/graph/fusion.h"

#include <algorithm>
#include <functional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/views.h"

namespace nestor {

namespace {

constexpr size_t kLargestGroup = 64;
constexpr size_t kMostReads = 64;  // beside the first of each node: a function of more takes long to compile
constexpr int64_t kLongestRow = 8192;  // scores, of which a few rows fit the second-level cache

class Fuser {
 public:
  explicit Fuser(const Graph& g) : g_(g), count_(static_cast<int>(g.nodes.size())) {
    for (int i = 0; i < count_; ++i) {
      const Node& n = g_.nodes[static_cast<size_t>(i)];
      const OpDef* op = find_op(n.domain, n.op, n.opset);
      NESTOR_CHECK(op) << "unknown operator " << n.op;
      view_.push_back(is_view(g_, n));
      // A view is no code; what is fused stays on one side of it.
      pattern_.push_back(view_.back() ? Pattern::opaque : op->pattern);
      leader_.push_back(i);
      kind_.push_back(pattern_.back());
      size_.push_back(1);
      reads_.push_back(std::max<size_t>(1, n.inputs.size()) - 1);
    }
    find_readers();
    find_post_dominators();
  }

  // Anchors take their epilogues first; then the rest grows, from the inputs on.
  void run() {
    for (const bool anchors : {true, false})
      for (int i = 0; i < count_; ++i)
        if ((pattern_[at(i)] == Pattern::anchor) == anchors) grow(i);
  }

  void join_products() {
    for (int i = 0; i < count_; ++i) {
      const int first = scores_of(i);
      if (first < 0) continue;
      const int sink = find(i), second = dominator_[at(sink)];
      join_operands(anchor_of(first));
      join_operands(second);
      merge(first, sink);
      merge(sink, find(second));
    }
  }

  Fusion result() {
    Fusion out;
    std::vector<std::vector<int>> members(g_.nodes.size());
    for (int i = 0; i < count_; ++i) {
      if (view_[at(i)])
        out.views.push_back(i);
      else
        members[at(find(i))].push_back(i);
    }
    for (auto& m : members)
      if (!m.empty()) out.groups.push_back(std::move(m));
    std::sort(out.groups.begin(), out.groups.end(),
              [](const auto& a, const auto& b) { return a.back() < b.back(); });
    return out;
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }

  void find_readers() {
    readers_.resize(g_.nodes.size());
    escapes_.resize(g_.nodes.size(), false);
    for (int i = 0; i < count_; ++i)
      for (ValueId v : g_.nodes[at(i)].inputs)
        if (v >= 0 && value_of(g_, v).producer >= 0) {
          auto& list = readers_[at(value_of(g_, v).producer)];
          if (list.empty() || list.back() != i) list.push_back(i);
        }
    for (ValueId v : g_.outputs)
      if (value_of(g_, v).producer >= 0) escapes_[at(value_of(g_, v).producer)] = true;
  }

  // Node count_ is the exit, which all outputs lead to. Readers come later in the order, so theirs is known.
  void find_post_dominators() {
    dominator_.assign(g_.nodes.size(), count_);
    depth_.assign(g_.nodes.size() + 1, 0);
    for (int i = count_ - 1; i >= 0; --i) {
      int d = -1;
      if (escapes_[at(i)] || readers_[at(i)].empty()) d = count_;
      for (int r : readers_[at(i)]) d = d < 0 ? r : common(d, r);
      dominator_[at(i)] = d;
      depth_[at(i)] = depth_[at(d)] + 1;
    }
  }
  int common(int a, int b) const {
    while (a != b) {
      if (depth_[at(a)] < depth_[at(b)]) std::swap(a, b);
      a = dominator_[at(a)];
    }
    return a;
  }

  int find(int i) {
    while (leader_[at(i)] != i) i = leader_[at(i)] = leader_[at(leader_[at(i)])];
    return i;
  }
  // Groups are led by their sink.
  void merge(int from, int sink) {
    from = find(from), sink = find(sink);
    if (from == sink) return;
    const int last = std::max(from, sink), first = std::min(from, sink);
    leader_[at(first)] = last;
    kind_[at(last)] = heavier(kind_[at(first)], kind_[at(last)]);
    size_[at(last)] += size_[at(first)];
    reads_[at(last)] += reads_[at(first)];
  }
  static Pattern heavier(Pattern a, Pattern b) { return std::max(a, b); }

  const Dims& shape(int i) const {
    for (ValueId v : g_.nodes[at(i)].outputs)
      if (v >= 0) return value_of(g_, v).type.shape;
    NESTOR_CHECK(false) << "a node without outputs";
    __builtin_unreachable();
  }
  Dim elements(int i) const { return product(shape(i)); }
  bool one_output(int i) const {
    const auto& outputs = g_.nodes[at(i)].outputs;
    return std::count_if(outputs.begin(), outputs.end(), [](ValueId v) { return v >= 0; }) == 1;
  }
  bool element_wise(int i) const { return pattern_[at(i)] <= Pattern::broadcast; }

  void grow(int i) {
    int sink = find(i);
    while (true) {
      const int d = dominator_[at(sink)];
      if (d == count_ || !may_join(sink, d)) return;
      for (int n : between(sink, d)) merge(n, sink);
      merge(sink, d);
      sink = find(sink);
    }
  }

  // Nodes on the paths from s to d, both left out; gives up beyond the largest group.
  std::vector<int> between(int s, int d) const {
    std::vector<int> found, stack = {s};
    while (!stack.empty() && found.size() <= kLargestGroup) {
      const int n = stack.back();
      stack.pop_back();
      for (int r : readers_[at(n)])
        if (r != d && std::find(found.begin(), found.end(), r) == found.end()) {
          found.push_back(r);
          stack.push_back(r);
        }
    }
    return found;
  }

  bool may_join(int sink, int d) {
    const Pattern kind = kind_[at(sink)];
    if (kind == Pattern::opaque || !one_output(sink)) return false;
    size_t total = at(size_[at(sink)]) + at(size_[at(find(d))]);
    size_t reads = reads_[at(sink)] + reads_[at(find(d))];
    const std::vector<int> path = between(sink, d);
    if (path.size() > kLargestGroup) return false;
    for (int n : path) {
      // Each node on the way must be free of an anchor or reduction of its own.
      const Pattern group = kind_[at(find(n))];
      if (group > Pattern::injective || !one_output(n) || !joins(kind, sink, n)) return false;
      total += at(size_[at(find(n))]);
      reads += reads_[at(find(n))];
    }
    if (total > kLargestGroup || reads > kMostReads) return false;
    const Pattern target = kind_[at(find(d))];
    if (target == Pattern::opaque) return false;
    if (kind >= Pattern::reduction) return target <= Pattern::broadcast && joins(kind, sink, d);
    // A chain joins a group with an anchor only in its epilogue, a reduction only at its start.
    if (target == Pattern::anchor)
      return pattern_[at(d)] != Pattern::anchor && kind <= Pattern::broadcast && joins(kind, sink, d);
    if (target == Pattern::reduction) return pattern_[at(d)] == Pattern::reduction || joins(kind, sink, d);
    return joins(kind, sink, d);
  }

  int anchor_of(int sink) {
    int found = -1;
    for (int m = 0; m <= sink; ++m)
      if (find(m) == sink && pattern_[at(m)] == Pattern::anchor) found = m;
    return found;
  }

  // Operands that are turned or scaled for this product alone: its schedule makes what it needs when it needs
  // it. Nothing that the scores go into lies before them, so the groups still have no cycle.
  void join_operands(int product) {
    for (ValueId v : g_.nodes[at(product)].inputs) {
      const int p = value_of(g_, v).producer;
      if (p < 0 || escapes_[at(p)] || readers_[at(p)] != std::vector<int>{product} || !moves_only(p))
        continue;
      const bool turned_only = size_[at(find(p))] == 1 && transposes(p);
      if (!turned_only && !same_batch(shape(p), shape(product))) continue;  // shared by several products
      if (at(size_[at(find(p))]) + at(size_[at(find(product))]) <= kLargestGroup) merge(p, find(product));
    }
  }

  // Whether p's group is a few element-wise nodes and transpositions.
  bool moves_only(int p) {
    for (int m = 0; m <= p; ++m) {
      if (find(m) != find(p)) continue;
      if (view_[at(m)] || !(element_wise(m) || transposes(m))) return false;
    }
    return true;
  }
  bool transposes(int i) const { return g_.nodes[at(i)].domain.empty() && g_.nodes[at(i)].op == "Transpose"; }
  static bool same_batch(const Dims& a, const Dims& b) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end() - 2, b.begin(), [](const Dim& x, const Dim& y) { return x == y; });
  }

  bool is_matmul(int i) const {
    const Node& n = g_.nodes[at(i)];
    const auto matrix = [&](ValueId v) { return value_of(g_, v).type.shape.size() >= 2; };
    return n.domain.empty() && n.op == "MatMul" && matrix(n.inputs[0]) && matrix(n.inputs[1]);
  }

  // Node i is a Softmax along rows, its input the result of a MatMul's group and of use to nobody else, its
  // result the left operand of a MatMul: gives the sink of the first group, else -1.
  int scores_of(int i) {
    const Node& n = g_.nodes[at(i)];
    if (!n.domain.empty() || n.op != "Softmax" || value_of(g_, n.inputs[0]).type.dtype != DType::f32)
      return -1;
    const auto rank = static_cast<int64_t>(shape(i).size());
    const auto axis = n.attrs.find("axis");
    const int64_t along = axis != n.attrs.end() ? std::get<int64_t>(axis->second) : n.opset < 13 ? 1 : -1;
    if (rank < 2 || (along != -1 && along != rank - 1) || shape(i).back().typical() > kLongestRow) return -1;
    const int sink = find(i), second = dominator_[at(sink)];
    if (kind_[at(sink)] != Pattern::reduction || second == count_ || !is_matmul(second)) return -1;
    const Node& product = g_.nodes[at(second)];
    if (value_of(g_, product.inputs[0]).producer != sink || product.inputs[0] == product.inputs[1] ||
        readers_[at(sink)] != std::vector<int>{second})
      return -1;
    int first = -1;
    for (int m = 0; m <= sink; ++m) {
      if (find(m) != sink) continue;
      for (ValueId v : g_.nodes[at(m)].inputs) {
        const int p = v < 0 ? -1 : value_of(g_, v).producer;
        if (p < 0 || find(p) == sink || kind_[at(find(p))] != Pattern::anchor) continue;
        if (first >= 0 && first != find(p)) return -1;
        first = find(p);
      }
    }
    if (first < 0 || shape(first) != shape(i) || dominator_[at(first)] == count_) return -1;
    for (int r : readers_[at(first)])
      if (find(r) != sink) return -1;
    const size_t total = at(size_[at(first)]) + at(size_[at(sink)]) + at(size_[at(find(second))]);
    return is_matmul(anchor_of(first)) && !escapes_[at(first)] && total <= kLargestGroup ? first : -1;
  }

  // Whether n may compute with the sink's elements as they come.
  bool joins(Pattern kind, int sink, int n) const {
    if (kind >= Pattern::reduction) return element_wise(n) && shape(n) == shape(sink);
    if (element_wise(n)) return surely_le(elements(n), elements(sink));
    return pattern_[at(n)] == Pattern::injective;
  }

  const Graph& g_;
  int count_;
  std::vector<Pattern> pattern_, kind_;  // by node; by group's leader: its heaviest pattern
  std::vector<bool> view_, escapes_;
  std::vector<int> leader_, size_, dominator_, depth_;
  std::vector<size_t> reads_;  // by group's leader, as size_
  std::vector<std::vector<int>> readers_;
};

}  // namespace

Fusion fuse(const Graph& g, bool together, bool products) {
  Fuser fuser(g);
  if (together) fuser.run();
  if (together && products) fuser.join_products();
  return fuser.result();
}

}  // namespace nestor
