// Lines of a kernel's text.
#pragma once

#include <string>
#include <vector>

#include "src/emulate/emulation.h"

namespace nestor {

// line 12: `__syncthreads();`
std::string quoted(const EmulatedKernel& kernel, int line);

// The text's line of each address in the code of one traced library; 0 where none is known: addr2line, of the
// same package as the linker, reads them.
std::vector<int> lines_of(const std::vector<const void*>& sites);

}  // namespace nestor
