// Three index spaces and the ways between them: an element (all axes), its row (the kept axes), its place in
// the row.
#include "src/ops/rows.h"

namespace nestor::ops {

RowView::RowView(const Dims& shape, const Dims& reduced_axes)
    : all_(axes_of(shape)), is_reduced_(shape.size()) {
  for (int64_t a : reduced_axes) is_reduced_[static_cast<size_t>(a)] = true;
  for (size_t d = 0; d < shape.size(); ++d) (is_reduced_[d] ? inner_ : outer_).push_back(all_[d]);
}

Dims RowView::outer_shape() const {
  Dims out;
  for (const Axis& a : outer_) out.push_back(a.extent);
  return out;
}

Dim RowView::count() const {
  Dims extents;
  for (const Axis& a : inner_) extents.push_back(a.extent);
  return product(extents);
}

Exprs RowView::merge(const Exprs& outer, const Exprs& inner) const {
  Exprs at;
  size_t o = 0, r = 0;
  for (bool reduced : is_reduced_) at.push_back(reduced ? inner[r++] : outer[o++]);
  return at;
}

Exprs RowView::outer_of(const Exprs& all) const {
  Exprs at;
  for (size_t d = 0; d < all.size(); ++d)
    if (!is_reduced_[d]) at.push_back(all[d]);
  return at;
}

Exprs RowView::kept(const Exprs& outer) const {
  return merge(outer, Exprs(inner_.size(), Expr(0)));
}

}  // namespace nestor::ops
