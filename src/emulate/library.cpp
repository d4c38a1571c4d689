#include "src/emulate/library.h"

#include <dlfcn.h>

namespace nestor {

EmulatedLibrary::EmulatedLibrary(const std::string& path)
    : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) return;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle_, name));
  };
  find(attach, "nestor_attach");
  find(shared_memory, "nestor_shared_memory");
  find(image, "nestor_image");
}

EmulatedLibrary::~EmulatedLibrary() {
  if (handle_) dlclose(handle_);
}

bool EmulatedLibrary::traced() const {
  return handle_ && dlsym(handle_, "nestor_traced");
}

const EmulatedKernel* EmulatedLibrary::kernel(const std::string& name) const {
  return handle_ ? static_cast<const EmulatedKernel*>(dlsym(handle_, (name + "_emulated").c_str())) : nullptr;
}

}  // namespace nestor
