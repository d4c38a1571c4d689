// The interpreter: the definition of what the IR means, before and after lowering. Slow, exact, suspicious:
// it reports reads of uninitialized or out-of-bounds elements and conflicts between iterations that have no
// order.
//
// f32 arithmetic is done in f32, each operation rounded once, so that lowered functions agree with the
// machine bit for bit. Before lowering, math functions (exp, erf ...) are the correctly rounded C library
// ones in double precision, rounded to the type; lowering (`expand_math`) replaces them by polynomials that
// the interpreter then evaluates as is. A float cast to an integer truncates and saturates, NaN gives 0. A
// shift by the width or more is an error.
//
// Threads: a loop bound to threadIdx whose body holds `sync` runs as threads that wait for each other;
// accesses on two sides of a barrier are in order. A barrier that some threads don't reach is an error.
#pragma once

#include <string>

#include "nestor/error.h"
#include "nestor/ir.h"
#include "nestor/tensor.h"

namespace nestor {

// Of parallel and thread loops: their iterations have no order.
enum class LoopOrder { forward, reverse, random };

// Ends an interpretation after InterpretOptions::max_steps iterations.
class TooManySteps : public UserError {
  using UserError::UserError;
};

struct InterpretOptions {
  // Iterations of one parallel, vectorized or thread loop that touch one element, one of them writing.
  bool check_races = false;
  bool check_written = false;  // that every element of every out parameter is
  LoopOrder order = LoopOrder::forward;
  uint64_t seed = 0;          // of LoopOrder::random
  std::vector<int64_t> dims;  // values of the function's symbolic dimensions
  int64_t max_steps = int64_t{1} << 40;
};

// args: one tensor per parameter, in order; outs are written in place. Parameters with a layout take logical
// tensors. Throws UserError naming buffer, element and the loop iteration(s) at fault, with the statement
// underlined.
void interpret(const PrimFunc& f, std::vector<Tensor>& args, const InterpretOptions& options = {});

// The same function computed in f64: every f32/f16/bf16 buffer, immediate and cast becomes f64. Compiled or
// interpreted it is the oracle.
PrimFunc to_f64(const PrimFunc& f);

// Zero-filled (outs) and random (others) tensors of the parameters' logical shapes. `dims` as in
// InterpretOptions.
std::vector<Tensor> random_args(const PrimFunc& f, uint64_t seed, const std::vector<int64_t>& dims = {});

}  // namespace nestor
