// What a pass puts in a node's place: nodes appended one by one, each with the type of what it makes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

class Expansion {
 public:
  // Appends to `nodes` what stands for n.
  Expansion(Graph& g, Node n, std::vector<Node>& nodes) : g_(g), n_(std::move(n)), nodes_(nodes) {}

 protected:
  static constexpr size_t kMostPieces = 16;
  const TensorType& type(ValueId v) const { return g_.values[static_cast<size_t>(v)].type; }

  // Of opset 14, in domain nestor 1.
  ValueId add(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {},
              const std::string& domain = "");
  // The same of the first `outputs` that the node has.
  std::vector<ValueId> add_node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs,
                                const std::string& domain, size_t outputs);
  std::vector<ValueId> append(Node n, size_t outputs);
  ValueId constant(const std::string& part, Tensor t);
  // A scalar, and a list in i64: one for all of this expansion that are the same.
  ValueId constant(DType t, double value);
  ValueId list(const Dims& values);
  ValueId size(const Dim& value);  // a scalar in i64
  // Elements that are all alike, and 0, 1, 2 ... in i64. A model may say any size without bytes behind it, so
  // that large ones are left to run time.
  ValueId filled(const std::string& part, DType t, const Dims& shape, double value);
  ValueId counted(const std::string& part, const Dims& shape);
  // A Slice, and Concat and Split that stay small: of more than `most` pieces they are made of several, so
  // that equal ones share a function.
  ValueId sliced(ValueId v, int64_t axis, int64_t from, int64_t to, int64_t step = 1);
  ValueId concatenated(std::vector<ValueId> v, int64_t axis, size_t most = kMostPieces);
  std::vector<ValueId> steps_of(ValueId v);  // along dimension 0, which each has as 1
  // These append nothing where v is so already.
  ValueId cast(ValueId v, DType to);
  ValueId reshaped(ValueId v, const Dims& shape);
  ValueId transposed(ValueId v, const std::vector<int64_t>& perm);
  bool has_input(size_t i) const { return i < n_.inputs.size() && n_.inputs[i] >= 0; }
  bool wants(size_t i) const { return i < n_.outputs.size() && n_.outputs[i] >= 0; }
  void give(size_t i, ValueId v);  // it is what output i of the node is
  // The last node makes what n made.
  void finish() { nodes_.back().outputs[0] = n_.outputs[0]; }

  Graph& g_;
  const Node n_;
  std::vector<Node>& nodes_;

 private:
  std::map<std::pair<DType, uint64_t>, ValueId> scalars_;  // by their bits
  std::map<std::string, ValueId> lists_;                   // by their text

  ValueId new_value(const std::string& part, TensorType type);
  std::map<std::string, int64_t> numbers_;  // of the next value, by part
};

Tensor ints(const std::vector<int64_t>& values);  // a list in i64

}  // namespace nestor
