// A function's definition as Halide Funcs.
#pragma once

#include <Halide.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor::halide {

// What Halide can't say, by name.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Translation {
  std::vector<Halide::ImageParam> inputs;  // in the order of parameters
  std::vector<Halide::Func> outputs;       // likewise
};

// f is unscheduled: every block's iterators are its loops. Halide's first dimension is the innermost, ours
// the last.
Translation translate(const PrimFunc& f);

// One per dimension of the declaration, the innermost first. Throws Unsupported where Halide's 32-bit indices
// don't reach, or there is nothing to compute.
std::vector<int> extents_of(const BufferDecl& decl);
Halide::Type type_of(DType t);
// min or max; of floats NaN where either is.
Halide::Expr extremum(BinaryOp op, const Halide::Expr& x, const Halide::Expr& y);

}  // namespace nestor::halide
