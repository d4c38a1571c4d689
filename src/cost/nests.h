// The blocks of a scheduled function where they stand, as the price looks at them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
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

// The place of a loop in a set of a nest's loops, outermost first; the last holds all further in.
inline uint64_t bit_of(size_t loop) {
  return uint64_t{1} << std::min<size_t>(loop, 63);
}
constexpr uint64_t kEachLoop = ~uint64_t{0};

// A block where it stands.
struct Nest {
  std::vector<Loop> loops;  // outermost first
  std::vector<Touch> touches;
  // Of an instance, in those of an FMA port, by the loops that move their operands: the others don't repeat
  // them.
  std::map<uint64_t, double> operations;
  bool reduces = false;       // it updates what it reads
  bool in_registers = false;  // its results
  bool streams = false;       // these go past the caches
  double lanes = 1;           // that a vector of its type has
};
std::vector<Nest> nests_of(const PrimFunc& f, const Target& target);

}  // namespace nestor::cost
