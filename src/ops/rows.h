// A tensor split into rows to reduce over some of its axes: what softmax, norms and reductions share.
#pragma once

#include "src/ops/common.h"

namespace nestor::ops {

class RowView {
 public:
  RowView(const Dims& shape, const Dims& reduced_axes);
  const std::vector<Axis>& all() const { return all_; }      // every axis
  const std::vector<Axis>& outer() const { return outer_; }  // those kept
  const std::vector<Axis>& inner() const { return inner_; }  // those reduced
  Dims outer_shape() const;
  Dim count() const;  // elements of a row

  Exprs merge(const Exprs& outer, const Exprs& inner) const;  // an index of the whole tensor
  Exprs outer_of(const Exprs& all) const;                     // the row an element belongs to
  Exprs kept(const Exprs& outer) const;  // an index of a result that keeps reduced axes as 1

 private:
  std::vector<Axis> all_, outer_, inner_;
  std::vector<bool> is_reduced_;
};

}  // namespace nestor::ops
