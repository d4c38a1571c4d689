// Arrays of NumPy and of everything that speaks DLPack, and our tensors. Elements are copied only where it
// says so.
#pragma once

#include <nanobind/ndarray.h>

#include "nestor/runtime.h"
#include "src/python/bindings/bindings.h"

namespace nestor::python {

using ReadArray = nb::ndarray<nb::ro, nb::device::cpu>;
using WriteArray = nb::ndarray<nb::device::cpu>;

// The array as the input or output `wanted` of a model: its type and shape are checked, a TypeError or
// ValueError names what differs. What doesn't lie row major is copied by NumPy.
ReadArray as_input(nb::handle array, const PlanTensor& wanted);
// The same for an array that is written; one that doesn't lie row major is refused.
WriteArray as_output(nb::handle array, const PlanTensor& wanted);
// A new NumPy array of that type and shape, not filled, whose memory starts at a multiple of 64 bytes. Of a
// bf16 value, NumPy's ml_dtypes.bfloat16.
nb::object new_array(DType dtype, const std::vector<int64_t>& shape, void** data);
Tensor to_tensor(nb::handle array, const std::string& what);  // copied

}  // namespace nestor::python
