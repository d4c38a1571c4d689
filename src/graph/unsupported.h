// Why an operator isn't supported, and what to do about it: control flow, strings, sequences and results
// whose size depends on values are said as such.
#pragma once

#include <string>

#include "nestor/graph.h"

namespace nestor {

struct Refusal {
  std::string message, hint;
};
Refusal why_unsupported(const ModelNode& n);

}  // namespace nestor
