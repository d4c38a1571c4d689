// The blocks of a scheduled function where they stand, as the price looks at them.
#pragma once

#include <vector>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor::cost {

struct Loop {
  Var var;
  double extent = 1;
  ForKind kind = ForKind::serial;
};

struct Touch {
  Buffer buffer;
  std::vector<Expr> indices;  // over loops, of the elements as they lie in memory
  bool read = false, write = false, in_registers = false;
  double element = 4;
};

// A block where it stands.
struct Nest {
  std::vector<Loop> loops;  // outermost first
  std::vector<Touch> touches;
  double operations = 0;      // of an instance, in those of an FMA port
  bool reduces = false;       // it updates what it reads
  bool in_registers = false;  // its results
  double lanes = 1;           // that a vector of its type has
};
std::vector<Nest> nests_of(const PrimFunc& f, const Target& target);

}  // namespace nestor::cost
