// Small edits of a graph, from which the passes are made. After each the graph is whole again: producers are
// right and nodes stand in topological order if they did before.
#pragma once

#include "nestor/graph.h"

namespace nestor {

inline Value& value_of(Graph& g, ValueId v) {
  return g.values[static_cast<size_t>(v)];
}
inline const Value& value_of(const Graph& g, ValueId v) {
  return g.values[static_cast<size_t>(v)];
}
inline const Tensor& constant_of(const Graph& g, ValueId v) {
  return value_of(g, v).constant;
}
inline bool is_constant(const Graph& g, ValueId v) {
  return v >= 0 && constant_of(g, v).defined();
}

// The tensor of a value's `elements`, where all are numbers; else undefined.
Tensor constant_of_elements(const Value& v);

inline bool is_op(const Node& n, const char* op) {  // of ONNX's own
  return n.op == op && n.domain.empty();
}

bool is_output(const Graph& g, ValueId v);
std::vector<int> count_uses(const Graph& g);  // by value: reads by nodes, and being a graph output

// Nodes read `to` instead of `from`; graph outputs stay.
void replace_reads(Graph& g, ValueId from, ValueId to);

// Values that turn out to equal others while a pass walks the nodes in order. Readers are told when the pass
// comes to them, and all of them in the end: telling them at once would take time quadratic in the nodes.
class Forwarding {
 public:
  explicit Forwarding(Graph& g);
  bool is_output(ValueId v) const { return output_[static_cast<size_t>(v)]; }
  void resolve(Node& n);  // its inputs are what they turned out to be
  // A node's output `v` turns out to equal `same`: readers read `same`. Where v is a graph output, whose name
  // must live on, the producer of `same` makes v instead, or v stays as Identity(same). True where v's node
  // can go.
  bool forward(ValueId v, ValueId same);
  void finish();  // resolves every node

 private:
  ValueId current(ValueId v);
  Graph& g_;
  std::vector<bool> output_;
  std::vector<ValueId> same_;  // by value; itself where it stays
};

// The least number behind all those of values called `name`, or `name.1` and so on; 0: none is.
int64_t next_number(const Graph& g, const std::string& name);
std::string numbered(const std::string& name, int64_t number);  // `name`, or `name.1` and so on
// Names that are taken get a number.
ValueId add_constant(Graph& g, const std::string& name, Tensor t);
ValueId add_value(Graph& g, const std::string& name, TensorType type);

// Computes a node's outputs, which become constants; the node stays. False where an input isn't constant, and
// where the work, in runs of innermost statements, is more than what is `left`, of which it is taken.
bool evaluate_node(Graph& g, const Node& n, const EvaluateFn& evaluate, double* left = nullptr);

// Drops nodes for which keep[i] is false, and values that nothing refers to any more; renumbers.
void compact(Graph& g, const std::vector<bool>& keep);
void replace_nodes(Graph& g, std::vector<Node> nodes);  // in topological order; sets producers

int64_t scale_axis(const Graph& g, const Node& n);  // of a DequantizeLinear with several scales, from 0 on
std::vector<int64_t> transpose_perm(const Node& n, size_t rank);  // of a Transpose; reversed where not given

}  // namespace nestor
