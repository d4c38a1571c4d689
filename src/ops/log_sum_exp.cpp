// The exponential of a row's largest element is 1, and where the others are small, 1 plus their sum is 1: the
// result's digits are theirs. So they are summed apart, and log1p takes the sum. Elements as large as the
// largest are counted.
#include "src/ops/log_sum_exp.h"

namespace nestor::ops {

Expr LogSumExp::at(const Exprs& o) const {
  return make::call(Intrinsic::log1p, {others.at(o) + (ties.at(o) - constant_like(ties, 1))});
}

LogSumExp build_log_sum_exp(FuncBuilder& b, const RowView& rows, const BuildTensor& x, const BuildTensor& m,
                            Intrinsic exp) {
  const TensorType type = {x.dtype(), rows.outer_shape()};
  const LogSumExp out = {b.temp("Sum", type), b.temp("Ties", type)};
  const auto over_rows = [&](const BuildTensor& to,
                             const std::function<Expr(const Expr& x, const Expr& m)>& term) {
    b.reduce(to, rows.outer(), rows.inner(), ReduceOp::add,
             [&](const Exprs& o, const Exprs& r) { return term(x.at(rows.merge(o, r)), m.at(o)); });
  };
  over_rows(out.others, [&](const Expr& e, const Expr& largest) {
    const Expr distance = e - largest;  // NaN of infinities, else 0 where both are equal
    return make::select(eq(e, largest), distance, make::call(exp, {distance}));
  });
  over_rows(out.ties, [&](const Expr& e, const Expr& largest) {
    return make::select(eq(e, largest), constant_like(x, 1), constant_like(x, 0));
  });
  return out;
}

}  // namespace nestor::ops
