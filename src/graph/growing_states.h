// States of a Loop that grow: each iteration appends to what the one before left, as torch.cat in a scripted
// loop does. What iterations append is an output of the loop instead, and a Concat behind the loop puts it
// together: then the states that are left keep their shapes.
//
//   for i { rows = Concat(rows, f(i)) }   ->   all = for i { f(i) };  rows = Concat(rows, all joined)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

struct WithoutGrowth {
  ModelNode loop;
  std::vector<ModelNode> behind;  // make the states from what the loop gives
};

// Null where no state grows. `types` are those of the states as the loop begins; `fresh` makes names.
std::optional<WithoutGrowth> without_growth(const ModelNode& loop, const std::vector<TensorType>& types,
                                            const std::function<std::string(const std::string&)>& fresh);

}  // namespace nestor
