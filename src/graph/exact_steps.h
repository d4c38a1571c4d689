// When does what bytes stand for come out in steps of another size, bit for bit?
//
// ONNX has round((d * s) / t) of a byte's distance d from its zero point, each operation rounded: a division
// for each element. round(d * m) with m near s / t takes less, and where it differs, a tie was decided
// otherwise. Bytes are few, so both are computed for all of them, of sums of two for all pairs.
#pragma once

#include <optional>
#include <vector>

#include "nestor/dtype.h"

namespace nestor {

// Stands for scale * d with d from least to most.
struct ByteTerm {
  double scale;
  int least, most;
};

// The numbers m by which the sum of one or two terms, divided by `step` and rounded to integers of type `to`,
// is round(m * d) or round(m * d + m' * d'); nullopt: none near the quotients is. The second term may be
// subtracted.
std::optional<std::vector<double>> scales_in_steps(const std::vector<ByteTerm>& terms, bool subtracted,
                                                   double step, DType to);

}  // namespace nestor
