#pragma once

#include <optional>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

// The model's nodes with ONNX Runtime's operators of bytes written as operators of ONNX; nullopt where there
// are none.
std::optional<std::vector<ModelNode>> spell_out_bytes(const Model& m);

}  // namespace nestor
