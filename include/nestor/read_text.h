// Reading a file that a person names: where it can't be read, the message says why.
#pragma once

#include <cstddef>
#include <string>

namespace nestor {

inline constexpr size_t kMostText = 16 << 20;  // bytes: nobody writes a longer text, but /dev/zero is one

// Throws UserError: "can't read x.sched: there is no such file".
std::string read_text(const std::string& path, size_t most = kMostText);

}  // namespace nestor
