// Small functions of every structure that schedules meet, at random sizes: half of them ragged (primes, one,
// and such, which no factor divides), half even. The sizes are kept, so that a failure can be shrunk. Some of
// them can stay open, symbolic dimensions of the function.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "nestor/ir.h"

namespace nestor {

using Sizes = std::map<char, int64_t>;                // of the letters in the function's text
using OpenSizes = std::vector<std::vector<int64_t>>;  // values of symbolic dimensions, several times

struct FuzzFunction {
  int index = 0;
  std::string name;
  double tolerance = 0;  // 0: exact on small integers whatever the order of sums
  Sizes sizes;
  std::string open;  // letters whose sizes are symbolic dimensions, in their order
  PrimFunc func;
};

int fuzz_function_count();
int first_dependence_function();  // from here on they are made to be broken
Sizes draw_sizes(bool ragged, std::mt19937_64& rng);
FuzzFunction make_function(int index, const Sizes& sizes, const std::string& open = "");
// Some of the letters that the function has.
std::string draw_open(int index, std::mt19937_64& rng);
// Five times values for the open sizes: all 1, those given, and others that differ from them; of one of these
// a size is 0.
OpenSizes draw_open_sizes(const std::string& open, const Sizes& given, std::mt19937_64& rng);

}  // namespace nestor
