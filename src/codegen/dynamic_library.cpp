#include "src/codegen/dynamic_library.h"

#include <dlfcn.h>

namespace nestor {

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if ((handle_ = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL))) return;
}

void* DynamicLibrary::symbol(const char* name) const {
  return handle_ ? dlsym(handle_, name) : nullptr;
}

}  // namespace nestor
