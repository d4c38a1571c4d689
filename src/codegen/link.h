// Linking a shared object in process.
#pragma once

#include <string>
#include <vector>

#include "nestor/target.h"

namespace nestor {

// Links one ELF object file into a shared object that needs libc and libm only. Throws InternalError with the
// linker's words, or where the object asks for a symbol that those two don't have.
void link_shared(const std::string& object_path, const std::string& output_path, const std::string& soname,
                 const Target& target);

}  // namespace nestor
