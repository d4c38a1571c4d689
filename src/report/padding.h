// Products with the zeros around an image count as no operations, because a schedule may leave them out.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "nestor/ir.h"

namespace nestor::report {

using Iterations = std::vector<std::pair<Var, double>>;  // variables, and how many values each has

// Of the iterations those in which the condition holds, to a percent; all where it depends on data.
double share_where(const Expr& condition, const Iterations& iterations);

class Padding {
 public:
  explicit Padding(const PrimFunc& f);
  // Of the iterations that add the product up, the share of those in which no factor is a zero that was put
  // there: a value under a condition on indices that is 0 otherwise, here or in the block that wrote it.
  double share(const Expr& product, const Iterations& iterations) const;

 private:
  struct Padded {
    std::vector<Var> vars;  // which index it, in order
    Expr holds;             // something else than 0
  };
  void conditions(const Expr& factor, std::vector<Expr>& out) const;
  std::unordered_map<Buffer, Padded> padded_;
};

}  // namespace nestor::report
