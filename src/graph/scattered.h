// Results of transposed convolutions that a row-major image takes one by one.
#pragma once

#include "src/ops/transposed.h"

namespace nestor {

// Whether a strided one takes longer with its result in rows than with it in blocks of `lanes` channels, and
// copies of image and result.
bool scatters_badly(const ops::TransposedShape& s, int64_t lanes);

}  // namespace nestor
