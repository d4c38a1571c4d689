// Vectorized loops around vectorized reductions: `vectorized r { vectorized k { X[r] = X[r] op e(r, k) } }`.
#pragma once

#include "src/passes/widen.h"

namespace nestor::passes {

// The loop with its rows' lanes folded together; refused where its body isn't such a reduction into an
// element of each row's own.
Stmt fold_rows(const For& rows, int lanes, const Facts& facts, const BufferSizes& sizes);

}  // namespace nestor::passes
