// Handlers made of a function on one or two values, run on every lane.
#pragma once

#include "src/ir/interpret_code.h"

namespace nestor::interpreter {

template <class T, class R, auto F>
void map1(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = put<R>(static_cast<R>(F(get<T>(r[i.a + l]))));
}
template <class T, class R, auto F>
void map2(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l)
    r[i.dst + l] = put<R>(static_cast<R>(F(get<T>(r[i.a + l]), get<T>(r[i.b + l]))));
}

// In what an operation on a type computes.
enum class Rep { f64, f32, integer };
inline Rep rep_of(DType t) {
  return t == DType::f64 ? Rep::f64 : is_float(t) ? Rep::f32 : Rep::integer;
}

}  // namespace nestor::interpreter
