// log(sum(exp(x))) of rows, by what is left of them when each row's largest element is taken out.
#pragma once

#include "src/ops/common.h"
#include "src/ops/rows.h"

namespace nestor::ops {

struct LogSumExp {
  BuildTensor others, ties;
  // log of the sum over row `o` of exp(x - m).
  Expr at(const Exprs& o) const;
};

// m is each row's largest element, or any number where that isn't finite; `exp` is the exponential of what m
// leaves. Appends blocks Sum and Ties.
LogSumExp build_log_sum_exp(FuncBuilder& b, const RowView& rows, const BuildTensor& x, const BuildTensor& m,
                            Intrinsic exp);

}  // namespace nestor::ops
