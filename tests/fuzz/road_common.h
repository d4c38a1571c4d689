// What the roads share: lowering, inputs for lowered functions, and comparisons.
#pragma once

#include "nestor/target.h"
#include "nestor/tensor.h"
#include "tests/fuzz/check_trace.h"

namespace nestor {

// A function on a road, its inputs real numbers.
struct Lowered {
  Subject subject;
  PrimFunc scheduled, lowered;
  PrimFunc meant;  // lowered, but machine instructions are what their blocks say: the interpreter runs it
  int64_t number = 0;
  Lowered at(const std::vector<int64_t>& dims) const;  // every symbolic dimension given
  std::vector<Tensor> args() const;                    // flat and packed, fresh ones at each call
};

// Lowers, checking after every pass. The lowered function is called `name`.
Road::Entry lower_for(const Target& target, const Subject& subject, const PrimFunc& scheduled, int64_t number,
                      const std::string& name, Lowered& out);

// Its arguments after it was interpreted, watching for races.
Finding interpret_lowered(const Lowered& l, std::vector<Tensor>& args);

// `got`: the arguments after a run. Equal to the lowered function interpreted (`expected`), and within the
// bounds of rounding of the unscheduled one.
Finding agree(const Lowered& l, const std::vector<Tensor>& expected, const std::vector<Tensor>& got,
              const std::string& who);

}  // namespace nestor
