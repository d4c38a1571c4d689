// Linking in process.
#pragma once

#include <string>
#include <string_view>

#include "nestor/target.h"

namespace nestor {

// Links the bytes of an ELF object file into those of a shared object that needs libc and libm only. Throws
// InternalError with the linker's words, or where the object asks for a symbol that those two don't have.
std::string link_shared(std::string_view object, const std::string& soname, const Target& target);

// The bytes of a static library of one member.
std::string archive_of(std::string_view object, const std::string& member);

}  // namespace nestor
