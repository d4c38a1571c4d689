// Compares tensors with a reference, and bounds the rounding error of a function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nestor/ir.h"
#include "nestor/tensor.h"

namespace nestor {

// |got - want| <= atol + rtol * |want|. Integers and booleans must be equal.
struct Tolerance {
  double rtol = 1e-4, atol = 1e-5;
};

struct Comparison {
  int64_t elements = 0, mismatches = 0;
  int64_t worst =
      -1;  // flat index of the element farthest beyond (or nearest to) what is allowed; -1: no elements
  double got = 0, want = 0, allowed = 0;  // there
  double max_abs = 0, max_rel = 0;        // over all finite elements
  bool ok() const { return mismatches == 0; }
};

// Types may differ (the oracle is f64), shapes may not (UserError). NaN equals NaN; an element that equals
// the wanted one rounded to its own type is right whatever the tolerance, infinities included.
Comparison compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance = {});
// |got - want| <= bound * factor + 1e-38, element by element.
Comparison compare(const Tensor& got, const Tensor& want, const Tensor& bound, double factor = 1);
// "logits: 3 of 10 elements differ; worst at [0,4]: 1.25, should be 1.5 ± 1e-05" or "logits: 10 elements
// agree, ..."
std::string describe(const Comparison& c, const std::string& name, const Tensor& want);

// The function in f64 with one more `out` parameter per float out, after the others and in their order: a
// rigorous bound on how far the same function computed in its own types, its sums in any order, may be from
// the f64 result. Running it gives the oracle and the allowance at once. nullopt where rounding may change
// more than digits (a rounded value cast to an integer, a comparison stored); `why_not` then says what.
std::optional<PrimFunc> with_error_bound(const PrimFunc& f, std::string* why_not = nullptr);

}  // namespace nestor
