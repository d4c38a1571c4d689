// The cost of each loop of a scheduled function, from the text of the loop nest alone: how often it runs, how
// much it computes, and which bytes it touches. The page shows it beside a loop, and it says in which cache
// the data of a loop's body fits.
//
// A footprint is the number of distinct bytes that some loops reach during one iteration of the loops around
// them: for each buffer the union of the boxes of its accesses, cut to the buffer. It is exact for boxes and
// rows with gaps. An index that isn't affine (a gather) counts as the whole dimension, and the number is
// marked as an upper bound.
#pragma once

#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor::report {

struct BufferUse {
  std::string name;
  Scope scope = Scope::global;
  int64_t bytes = 0;  // distinct, that one iteration reaches
};

struct LoopCost {
  int64_t extent = 1;
  int64_t trips = 1;  // iterations in the whole function; guards of ragged tails are counted as if they held
  double flops = 0;   // in the whole function, where the guards hold; counted as flops_of does
  int64_t touched = 0;          // bytes of memory that one run of the loop reaches
  int64_t footprint = 0;        // ... that one iteration of its body reaches
  int64_t registers = 0;        // bytes of `local` buffers that one iteration reaches
  bool exact = true;            // false: the bytes are upper bounds
  std::vector<BufferUse> body;  // what footprint and registers are made of, in order of first use
};

// One per loop, in program order. Temporaries count with the place and size that lowering will give them.
std::vector<LoopCost> loop_costs(const PrimFunc& scheduled);

// Of what the guards let run: one figure per loop, in program order.
std::vector<double> flops_of_loops(const PrimFunc& f);

// All loops of a statement in the same order.
std::vector<const For*> loops_in(const Stmt& s);

}  // namespace nestor::report
