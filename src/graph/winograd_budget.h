// How many bytes the transformed weights of Winograd's convolutions may take.
#pragma once

#include <map>
#include <string>

#include "nestor/graph.h"

namespace nestor {

struct WinogradChoice {
  int64_t tile = 0;  // 0: the direct sum
  std::string why;
  double gain = 0;                  // cycles
  std::map<int64_t, double> gains;  // of all tiles that are worth it
};
using WinogradChoices = std::map<ValueId, WinogradChoice>;  // by what a convolution makes

// Lets those go whose transformed weights don't fit, what gains most for each byte first. Convolutions that
// share weights go together. Beside weights that are stored for other sizes, smaller tiles are tried first.
void keep_within(int64_t budget, const TransformedWeights* stored, Graph& g, WinogradChoices& chosen);

}  // namespace nestor
