// What a pass puts in a node's place: nodes appended one by one, each with the type of what it makes.
#pragma once

#include <string>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

class Expansion {
 public:
  // Appends to `nodes` what stands for n.
  Expansion(Graph& g, Node n, std::vector<Node>& nodes) : g_(g), n_(std::move(n)), nodes_(nodes) {}

 protected:
  const TensorType& type(ValueId v) const { return g_.values[static_cast<size_t>(v)].type; }

  // Of opset 14, in domain nestor 1.
  ValueId add(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {},
              const std::string& domain = "");
  ValueId constant(const std::string& part, Tensor t);
  ValueId constant(DType t, double value);  // a scalar
  // These append nothing where v is so already.
  ValueId cast(ValueId v, DType to);
  ValueId reshaped(ValueId v, const std::vector<int64_t>& shape);
  ValueId transposed(ValueId v, const std::vector<int64_t>& perm);
  // The last node makes what n made.
  void finish() { nodes_.back().outputs[0] = n_.outputs[0]; }

  Graph& g_;
  const Node n_;
  std::vector<Node>& nodes_;

 private:
  std::string name(const std::string& part) const;
};

Tensor ints(const std::vector<int64_t>& values);  // a list in i64

}  // namespace nestor
