// A work of the CPU benchmark: an operator, or a file of loop nests; the data all contestants get, and what
// it must cost.
#pragma once

#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor::bench {

struct Work {
  std::string family, name, spec;
};
// Lines `family name operator`; `#` begins a comment. Throws UserError with file and line.
std::vector<Work> read_works(const std::string& path);

// An operator with its tensors. Peers get these very tensors.
struct Problem {
  Source source;           // a graph of one node, or loop nests without any
  std::string op() const;  // empty for loop nests, which no peer knows
  const Node& node() const { return source.graph.nodes.at(0); }
  const Value& value(ValueId v) const { return source.graph.values.at(static_cast<size_t>(v)); }
  std::vector<int64_t> shape(size_t input) const;
  DType type(size_t input) const { return value(node().inputs.at(input)).type.dtype; }
  bool is_const(size_t input) const { return value(node().inputs.at(input)).constant.defined(); }
  Tensor input(size_t i) const;  // the constant, or the random data of the run
  std::vector<int64_t> ints(const std::string& attribute, std::vector<int64_t> otherwise) const;
  int64_t integer(const std::string& attribute, int64_t otherwise) const;

  bool exact_conv = false;     // no Winograd
  std::vector<Tensor> inputs;  // of the graph's inputs
  Tensor output;               // row major; what peers are compared with
  double flops = 0;            // multiply-adds count twice
  double bytes = 0;            // what is read of inputs, each element once, and every output written once
};
Problem make_problem(const std::string& spec);

}  // namespace nestor::bench
