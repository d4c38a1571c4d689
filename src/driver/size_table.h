// The numbers that a run computes from the shapes of its inputs, for a model with symbolic sizes (PlanSizes).
// The program that computes them is a function of the loop IR, compiled like any kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nestor/dim.h"
#include "nestor/ir.h"
#include "nestor/runtime.h"
#include "nestor/simplify.h"

namespace nestor {

class SizeTable {
 public:
  explicit SizeTable(std::shared_ptr<const Symbols> symbols);

  int add(const Expr& number);                     // over the symbols; its index
  int add_list(const std::vector<Expr>& numbers);  // that of the first of them, which stand in a row
  int add_most(const Expr& number);                // the most that it may be (most_of)
  void require(const Expr& condition, const std::string& text);
  // That a tensor's size can be computed, isn't negative and has memory.
  void require_bytes(const Dims& shape, DType dtype, const std::string& name);

  // Lowered: `in` the symbols' values, `out` the numbers.
  PrimFunc function(const std::string& name) const;
  // All but the kernel, what lies in the arena, and the outputs. `shapes` are those of the model's inputs;
  // `found` the symbols that calls find out, by their numbers, in the order of the calls.
  PlanSizes finish(const std::vector<PlanTensor>& inputs, const std::vector<Dims>& shapes,
                   const std::vector<int64_t>& found);
  int64_t symbol(const std::string& name) const;  // its number

 private:
  Expr checked(const Expr& number);
  Expr divided_safely(const Expr& number);
  void require_no_overflow(const Expr& number);

  std::shared_ptr<const Symbols> symbols_;
  Facts bounds_;  // of the symbols
  std::vector<Expr> numbers_;
  std::vector<Expr> positive_;  // what is divided by
  std::vector<Expr> small_;     // what is computed without overflow
  std::vector<PlanSizes::Requirement> requirements_;
};

}  // namespace nestor
