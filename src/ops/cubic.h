// Interpolation by four neighbours, as Resize and GridSample have it.
#pragma once

#include <array>

#include "nestor/ir.h"

namespace nestor::ops {

// Keys' cubic convolution (1981) of parameter a: how much the elements at -1, 0, 1 and 2 weigh for a place at
// `fraction`, from 0 to 1.
std::array<Expr, 4> cubic_weights(const Expr& fraction, double a);

}  // namespace nestor::ops
