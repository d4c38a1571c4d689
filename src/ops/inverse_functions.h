// Trigonometric and hyperbolic functions, and their inverses, of those that the IR has.
#pragma once

#include "nestor/ops.h"

namespace nestor::ops {

Expr tan_of(const Expr& x);
Expr sinh_of(const Expr& x);
Expr cosh_of(const Expr& x);
Expr asin_of(const Expr& x);
Expr acos_of(const Expr& x);
Expr atan_of(const Expr& x);
Expr asinh_of(const Expr& x);
Expr acosh_of(const Expr& x);
Expr atanh_of(const Expr& x);

}  // namespace nestor::ops
