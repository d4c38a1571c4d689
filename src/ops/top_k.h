// What TopK says of its inputs. It is spelled out place by place as a graph is built
// (src/graph/spell_out_top_k.cpp), by two operators of domain nestor that top_k.cpp has.
#pragma once

#include "nestor/ops.h"

namespace nestor::ops {

struct TopKShape {
  size_t axis = 0;
  int64_t count = 0;  // of places that are asked for
  bool largest = true;
};
// Fails where inputs or attributes don't fit.
TopKShape top_k_shape(const OpContext& ctx);

}  // namespace nestor::ops
