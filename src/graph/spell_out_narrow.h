#pragma once

#include <string>

#include "nestor/graph.h"

namespace nestor {

// Types of 8 bits and less that are no element types are read as bytes (src/ops/formats.h): tensors and
// values of them are said to be refused, by `narrow_name`. Where all nodes that read them can be spelled out,
// the model's own graph and those inside have only element types afterwards, and nothing of these is refused.
// Throws UserError where another node reads one.
void spell_out_narrow(Model& m);

// What refuses a type of ONNX's number: "a tensor of float8e4m3fn".
std::string narrow_name(int code);

}  // namespace nestor
