// JSON fields of ONNX that came after the libonnx that Nestor is built with: its protobuf would refuse them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/graph/json_at.h"

namespace nestor {

struct NewerFields {
  bool any = false;                                  // the document was changed
  std::map<int, std::vector<std::string>> defaults;  // by function: of its attributes, each an AttributeProto
};
// Takes them out of a ModelProto. An `overload` becomes part of the function's name, and of the operator's
// that calls it; what only tools or machines with several devices need is dropped.
NewerFields take_newer_fields(Json& model);

// The name of an overload of a function.
std::string overload_name(const std::string& op, const std::string& overload);

}  // namespace nestor
