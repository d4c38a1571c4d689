// The names of the attributes that ONNX gives its operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace nestor::ops {

// Of an operator of ai.onnx at an opset, sorted; nothing where the table hasn't the operator.
std::optional<std::vector<std::string>> attributes_of(const std::string& op, int opset);

}  // namespace nestor::ops
