#pragma once

#include <optional>
#include <vector>

#include "nestor/graph.h"
#include "src/graph/model_names.h"

namespace nestor {

// One of ONNX Runtime's operators of bytes as operators of ONNX, at the model's opset of these; nullopt where
// it is none.
std::optional<std::vector<ModelNode>> spell_out_bytes(const ModelNode& n, int64_t opset, FreshNames& fresh);

}  // namespace nestor
