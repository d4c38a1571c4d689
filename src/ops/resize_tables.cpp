// Resize's tables. If the sizes of an axis are open, or a row is long, where the elements of a result lie in
// the input is a division by a size, and what they weigh another one. Both are the same in all rows and
// channels, so they are computed once for each index of the axis, before anything else, and read from then
// on.
#include "src/ops/resize.h"

namespace nestor::ops {

namespace {

// Of what `value` is for each index of the axis.
BuildTensor table(FuncBuilder& b, const char* name, const Line& l, DType type,
                  const std::function<Expr(const Expr&)>& value) {
  const BuildTensor out = b.temp(name, {type, {l.out}});
  b.compute(out, axes_of(out.shape), [&](const Exprs& i) { return make::cast({type, 1}, value(i[0])); });
  return out;
}

// Whether not every vector of a row has code of its own, whose places are constants. Those of a row that
// grows by its nearest elements repeat. (Zen 5, 64 channels: linear of 64x64 to 128x128 217 to 96 us, 56x56
// to 112x112 would take 58 to 73; cubic 56x56 to 112x112 1028 to 106, 28x28 to 56x56 25 to 41.)
bool is_long(const Line& l, size_t taps) {
  constexpr int64_t kLong = 112, kLongCubic = 64;
  return taps == 1 ? l.out > kLong && l.out < l.in : taps == 2 ? l.out > kLong : l.out > kLongCubic;
}

}  // namespace

TapsAt in_tables(FuncBuilder& b, const Line& l, bool is_row, const TapsAt& taps) {
  const Taps one = taps(Expr(0));
  if (l.in.known() && l.out.known() && !(is_row && is_long(l, one.at.size()))) return taps;
  std::vector<BuildTensor> at, weights;
  for (size_t k = 0; k < one.at.size(); ++k)
    at.push_back(table(b, "At", l, DType::i32, [&](const Expr& i) { return taps(i).at[k]; }));
  for (size_t k = 0; k < one.weights.size(); ++k)
    weights.push_back(table(b, "Weight", l, one.weights[k].type().dtype, [&](const Expr& i) {
      const Taps here = taps(i);
      return here.total ? here.weights[k] / here.total : here.weights[k];
    }));
  return [at, weights](const Expr& i) {
    Taps out;
    for (const BuildTensor& t : at) out.at.push_back(make::cast({DType::i64, 1}, t.at({i})));
    for (const BuildTensor& t : weights) out.weights.push_back(t.at({i}));
    return out;
  };
}

}  // namespace nestor::ops
