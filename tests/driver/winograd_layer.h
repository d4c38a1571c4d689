// A layer that Winograd's algorithm can compute, for tests of it.
#pragma once

#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor {

struct WinogradLayer {
  int64_t n = 1, channels = 16, filters = 16, height = 8, width = 8;
  std::vector<int64_t> pads = {1, 1, 1, 1};
  std::string tail = "Relu";  // what follows: "", "Relu", or "Add" of what the convolution reads
  bool constant_weights = true;
  Attrs more = {};
};

// A 3x3 convolution between two of 1x1, so that what it reads and writes lies in blocks of channels.
Graph graph_of(const WinogradLayer& l);

// Compiled with the algorithm wherever it applies, whatever it costs, by tiles of so many results a side.
CompiledModel forced_winograd(const WinogradLayer& l, int64_t tile, const Target& target);

int count_winograd(const CompiledModel& m);

}  // namespace nestor
