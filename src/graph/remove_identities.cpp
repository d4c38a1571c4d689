// Nodes that change nothing: Identity, Dropout, a Reshape to the same shape. And two transpositions in a row,
// which are one, or none. An Identity stays only where a graph output is an input, a constant or another
// output.
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/graph/views.h"

namespace nestor {

namespace {

// Transpose(Transpose(x, p), q) is Transpose(x, r), r[i] = p[q[i]].
void join_transpositions(Graph& g, Node& n) {
  if (n.op != "Transpose" || !n.domain.empty()) return;
  const int maker = value_of(g, n.inputs[0]).producer;
  if (maker < 0) return;
  const Node& first = g.nodes[static_cast<size_t>(maker)];
  if (first.op != "Transpose" || !first.domain.empty()) return;
  const size_t rank = value_of(g, n.inputs[0]).type.shape.size();
  const std::vector<int64_t> p = transpose_perm(first, rank), q = transpose_perm(n, rank);
  std::vector<int64_t> joined;
  for (int64_t axis : q) joined.push_back(p[static_cast<size_t>(axis)]);
  n.attrs["perm"] = joined;
  n.inputs[0] = first.inputs[0];
}

}  // namespace

void remove_identities(Graph& g, const EvaluateFn&) {
  Forwarding forwarding(g);
  std::vector<bool> keep(g.nodes.size(), true);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    forwarding.resolve(n);
    join_transpositions(g, n);
    // A view that keeps the shape may still move dimensions of 1 in name only: the bytes are the same.
    if (is_identity(g, n)) keep[i] = !forwarding.forward(n.outputs[0], n.inputs[0]);
  }
  forwarding.finish();
  compact(g, keep);
}

}  // namespace nestor
