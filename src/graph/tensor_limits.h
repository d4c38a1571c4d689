#pragma once

#include <string>

#include "nestor/graph.h"

namespace nestor {

// Why there can be no tensor of this type: "has 100 dimensions ...", to stand behind its name; "" where there
// can. Sizes in bytes don't overflow otherwise.
std::string refusal_of(const TensorType& t);

}  // namespace nestor
