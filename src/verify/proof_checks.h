// What a function must keep to on its own, whatever it is compared with. Each throws Failure.
#pragma once

#include "src/verify/proof_flow.h"

namespace nestor::verify {

// No two iterations of a parallel, vectorized or thread loop touch one element, one of them writing it. Free
// of that are buffers that each iteration has for itself (allocated inside), and reductions over vector
// lanes, which lowering gives partial results.
void check_conflicts(Flow& flow);

// What is read was written before, even where no output depends on it.
void check_reads(Flow& flow);

// A layout gives no two elements one place.
void check_layouts(const Model& m);

// Accesses lie inside of their buffers. `after` says of which form of the function this is: "" or " after
// lowering".
void check_bounds(Flow& flow, const std::string& after);

}  // namespace nestor::verify
