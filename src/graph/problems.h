// What is wrong with a model, collected so that all of it is reported at once. Nodes of one operator that are
// refused for one reason are one line, with their number.
#pragma once

#include <string>
#include <vector>

#include "nestor/error.h"

namespace nestor {

// A node as messages call it: "Conv node `stem` (opset 17, f16)".
struct NodeLabel {
  std::string op, name;  // the node's, or empty
  std::string makes;     // its first output
  std::string context;   // "opset 17, f16"
};
std::string to_string(const NodeLabel& label);

class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(const std::string& message, const std::string& hint = "");
  void add(const NodeLabel& node, const std::string& message, const std::string& hint = "");

  // What is added from now on belongs to a step, a number that the caller knows; -1: to the model.
  void begin_step(int step) { step_ = step; }
  void drop_steps(const std::vector<bool>& dropped);

  bool any() const { return !list_.empty(); }
  // One UserError: the problem itself, or a count and one note for each; NeedsValues of these inputs, if any.
  void throw_if_any(const std::vector<std::string>& unknown_inputs,
                    const std::vector<std::string>& unbounded) const;

 private:
  struct Problem {
    NodeLabel node;  // without an operator: of no node
    std::string message, hint;
    int step;
  };
  std::vector<std::vector<Problem>> grouped() const;

  std::string file_;
  int step_ = -1;
  std::vector<Problem> list_;
};

}  // namespace nestor
