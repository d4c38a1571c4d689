// Instructions that add up several products of small numbers in each lane (VNNI, AVX512-BF16), where a
// reduction is made of them.
#pragma once

#include <optional>
#include <string>

#include "nestor/schedule.h"
#include "nestor/target.h"
#include "schedules/library/analysis.h"
#include "schedules/library/tile.h"

namespace nestor::library {

// In each lane of `vector`, `group` steps of `reduced` at once: of an element that all lanes share, and of
// one that each has for itself.
struct Dot {
  std::string instruction;
  int64_t lanes = 0, group = 0;
  int64_t registers = 1;        // that each operand takes
  std::string vector, reduced;  // loops
  Buffer shared, own;           // operands
  bool copy_shared = false;     // its steps don't lie next to each other
};

// What the reduction `b` is made of for this target, as its operands' types and how they move say; none where
// it isn't, or where it wouldn't pay.
std::optional<Dot> find_dot(const PrimFunc& f, const BlockInfo& b, const Target& target);

// The tile for it.
Tile choose_tile(const BlockInfo& b, const Dot& dot, const Target& target);

// The steps of a group of the shared operand next to each other.
void lay_out_shared(Schedule& s, const std::string& block, const Dot& dot);

}  // namespace nestor::library
