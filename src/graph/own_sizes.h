// Sizes of a function's own. Where a size of the model comes divided ((height+1)/2 rows behind a strided
// convolution), the quotient becomes a dimension of the function, which the caller computes: loops over it
// are as plain as those over a size of the model, and layers that differ in nothing else share a function. So
// do the lesser or larger of two sizes (what a Slice leaves) in a parameter's shape.
// Tiles of a parameter's size ((height+3)/4 rows of them) that no parameter has stay what they are.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "nestor/dim.h"
#include "nestor/ir.h"

namespace nestor {

class OwnSizes {
 public:
  explicit OwnSizes(std::shared_ptr<const Symbols> symbols) : symbols_(std::move(symbols)) {}

  // Names quotients, minima and maxima of f's dimensions; what f doesn't use any more isn't a dimension of it.
  void name(PrimFunc& f);
  // A dimension that has its name already.
  void know(const Var& dim, const Expr& value);
  // What a dimension is, over the model's symbols.
  Expr value(const Var& dim) const;

 private:
  Var named(const Expr& size);

  std::shared_ptr<const Symbols> symbols_;
  std::vector<std::pair<Var, Expr>> named_;
};

}  // namespace nestor
