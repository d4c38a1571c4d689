// Linking in process.
#pragma once

#include <string>
#include <string_view>

#include "nestor/target.h"
#include "src/codegen/weights_section.h"

namespace nestor {

// Links the bytes of an ELF object file into those of a shared object that needs libc and libm only. Throws
// InternalError with the linker's words, or where the object asks for a symbol that those two don't have.
SparseBytes link_shared(std::string_view object, const std::string& soname, const Target& target);

// The bytes of a static library of one member: the object, and so many bytes that have to follow.
std::string archive_of(std::string_view object, const std::string& member, size_t following);

}  // namespace nestor
