// One node and its operands, for tests: inferred, built as a function of its own, and (once inputs have
// values) run.
#pragma once

#include <string>
#include <vector>

#include "nestor/error.h"
#include "nestor/ops.h"

namespace nestor {

class OpCase {
 public:
  explicit OpCase(std::string op, int opset = 21, std::string domain = "") {
    node_.op = std::move(op);
    node_.opset = opset;
    node_.domain = std::move(domain);
    node_.name = "node";
  }
  OpCase& input(DType dtype, std::vector<int64_t> shape) { return add({dtype, std::move(shape)}, {}); }
  OpCase& input(std::vector<int64_t> shape) { return input(DType::f32, std::move(shape)); }
  OpCase& constant(const Tensor& t) { return add({t.dtype(), t.shape()}, t); }
  OpCase& ints(const std::vector<int64_t>& values) {  // a constant i64 list
    Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) t.set_int(static_cast<int64_t>(i), values[i]);
    return constant(t);
  }
  OpCase& omitted() {
    node_.inputs.push_back(-1);
    return *this;
  }
  OpCase& attr(const std::string& name, AttrValue value) {
    node_.attrs[name] = std::move(value);
    return *this;
  }
  OpCase& outputs(int n) {
    num_outputs_ = n;
    return *this;
  }

  std::vector<TensorType> infer() const {
    const OpDef* op = find_op(node_.domain, node_.op, node_.opset);
    NESTOR_CHECK(op) << node_.op;
    return op->infer(OpContext(graph_, with_output_ids()));
  }
  PrimFunc build(std::vector<ValueId>* args = nullptr) const {
    Graph g = graph_;
    Node n = with_output_ids();
    for (const TensorType& t : infer()) {
      if (g.values.size() == graph_.values.size() + n.outputs.size()) break;
      g.values.push_back({"y", t, {}, 0});
    }
    return build_function(g, n, args);
  }
  // The same with another type of all operands that have the first one's.
  OpCase with_first_type(DType type) const {
    OpCase out = *this;
    const DType first = graph_.values.at(static_cast<size_t>(node_.inputs.at(0))).type.dtype;
    for (Value& v : out.graph_.values) {
      if (v.type.dtype != first) continue;
      v.type.dtype = type;
      if (v.constant.defined()) v.constant = v.constant.cast(type);
    }
    return out;
  }
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  int num_outputs() const { return num_outputs_; }
  // The message of the UserError that inferring throws; empty where it doesn't.
  std::string error() const {
    try {
      infer();
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }

 private:
  OpCase& add(TensorType type, Tensor constant) {
    node_.inputs.push_back(static_cast<int>(graph_.values.size()));
    graph_.values.push_back(
        {"x" + std::to_string(graph_.values.size()), std::move(type), std::move(constant), -1});
    return *this;
  }
  Node with_output_ids() const {
    Node n = node_;
    for (int i = 0; i < num_outputs_; ++i) n.outputs.push_back(static_cast<int>(graph_.values.size()) + i);
    return n;
  }

  Graph graph_;
  Node node_;
  int num_outputs_ = 1;
};

}  // namespace nestor
