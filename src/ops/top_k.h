// What TopK says of its inputs. Few places are spelled out one by one as a graph is built
// (src/graph/spell_out_top_k.cpp), by two operators of domain nestor that top_k.cpp has; for many, or a
// number that a run finds, all elements are put in order (order.cpp).
#pragma once

#include "nestor/ops.h"

namespace nestor::ops {

struct TopKShape {
  size_t axis = 0;
  Dim count = 0;  // of places that are asked for
  bool largest = true;
  bool few() const { return count.known() && count <= kMostPlaces; }
  static constexpr int64_t kMostPlaces = 4096;  // each is found by code of its own
};
// Fails where inputs or attributes don't fit.
TopKShape top_k_shape(const OpContext& ctx);

}  // namespace nestor::ops
