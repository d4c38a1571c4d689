// Targets named by a processor: `cortex-a76`, `znver4`.
#pragma once

#include <optional>
#include <string>

#include "nestor/target.h"

namespace nestor {

// The processor that LLVM calls so, of AArch64 or x86-64 with SSE4.2 or more; nothing where there is none.
std::optional<Target> named_cpu(const std::string& name);

}  // namespace nestor
