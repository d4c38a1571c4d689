#pragma once

#include <optional>
#include <vector>

#include "nestor/ops.h"
#include "src/graph/model_names.h"

namespace nestor {

// An attribute of the casts to f16 and bf16 that spell_out_halves adds: a processor that computes in f32
// needn't round there (widen_halves).
inline constexpr const char* kUnrounded = "__unrounded";

// A node on f16 or bf16 whose operator computes in f32, as that operator between casts; nullopt where the
// operator takes the node's types, or no input is f16 or bf16. `n`: the node `mn`, its inputs known in `g`.
std::optional<std::vector<ModelNode>> spell_out_halves(const Graph& g, const Node& n, const ModelNode& mn,
                                                       const OpDef& op, FreshNames& fresh);

}  // namespace nestor
