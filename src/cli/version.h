// Which Nestor this is.
#pragma once

#include <string>

namespace nestor::cli {

std::string commit();   // of the sources, abbreviated; empty where they came without their git repository
std::string version();  // "0.1.0 (commit 1a2b3c4d5e6f, LLVM 19.1.7)"

}  // namespace nestor::cli
