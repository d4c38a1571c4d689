// Proves that two functions compute the same, from the two functions alone. It doesn't use the primitives
// that led from one to the other, nor their checks. Integer sets cover all iterations at once, so sizes don't
// matter.
#pragma once

#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

enum class Verdict {
  proved,
  wrong,     // the witness says where
  unproved,  // the reason says what couldn't be modelled, or that time was up
};

struct ProofOptions {
  double seconds = 5;  // of processor time; then the verdict is "unproved"
};

struct Proof {
  Verdict verdict = Verdict::unproved;
  std::string reason;   // one sentence; empty where proved
  std::string witness;  // "block Y at i=3,k=0 reads T[3,0] before block T at i=3,k=1 writes it"
  double seconds = 0;
  bool reassociated = false;    // sums are taken in another order: equal but for rounding
  bool assumes_finite = false;  // 0 times something was taken to be 0
  // Of verify_function: the nodes at fault, for print_marked; and whether an index that depends on data may
  // lie outside of its buffer, so that what some inputs give tells nothing of others.
  std::vector<const void*> at;
  bool depends_on_data = false;
  bool ok() const { return verdict == Verdict::proved; }
};

// Each output element of `after` is computed from the same inputs by the same operations as in `before`; what
// is read was written before, updates of a reduction happen once each, in any order; accesses lie inside of
// their buffers; no two iterations of a parallel, vectorized or thread loop conflict. The two have the same
// parameters.
Proof verify_schedule(const PrimFunc& before, const PrimFunc& after, const ProofOptions& options = {});

// What a function must keep to on its own: accesses lie inside of their buffers, what is read was written
// before, every element of an output is written, no two iterations of a parallel, vectorized or thread loop
// conflict, layouts give no two elements one place.
Proof verify_function(const PrimFunc& f, const ProofOptions& options = {});

// "proved in 12 ms", "wrong: ...", "unproved: ...", with the witness on a line of its own.
std::string describe(const Proof& proof);

}  // namespace nestor
