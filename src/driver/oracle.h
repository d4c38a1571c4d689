// What the oracles of functions and of whole graphs share.
#pragma once

#include <functional>
#include <vector>

#include "nestor/driver.h"

namespace nestor {

// How a function is run that is compared with its oracle: outputs of inputs.
using FunctionRun =
    std::function<std::vector<Tensor>(const CompiledFunction& f, const std::vector<Tensor>& inputs)>;

// What oracles of a model for this target are compiled for: oracles run in this process.
inline Target oracle_target(const Target& target) {
  return target.kind == TargetKind::cpu ? target : host_target();
}

// The unscheduled function with its loops as an oracle runs them: large sums in an order that memory likes,
// each result's terms in theirs.
PrimFunc in_oracle_order(const PrimFunc& f);

}  // namespace nestor
