// What must hold for each function alone, whatever it is compared with. Each check throws Failure.
#pragma once

#include "src/verify/proof_flow.h"

namespace nestor::verify {

// No two iterations of a parallel, vectorized or thread loop touch one element, one of them writing it. Free
// of that are buffers that each iteration has for itself (allocated inside), and reductions over vector
// lanes, which lowering gives partial results.
void check_conflicts(Flow& flow);

// What is read was written before, even where no output depends on it.
void check_reads(Flow& flow);

// Every element of every output is written.
void check_outputs(Flow& flow);

// What isn't in the model: indices that aren't linear lie inside of their buffers, by the ranges and
// conditions around them; whether one of them that depends on data may not.
void check_other_indices(const PrimFunc& f, bool& depends_on_data);
// Statements do nothing but store and prefetch: barriers and machine instructions aren't modelled.
void require_known_effects(const PrimFunc& f);

// A layout gives no two elements one place.
void check_layouts(const Model& m);

// Accesses lie inside of their buffers. `after` says of which form of the function this is: "" or " after
// lowering".
void check_bounds(Flow& flow, const std::string& after);

}  // namespace nestor::verify
