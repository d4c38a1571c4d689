// Compiled kernels, loaded.
#pragma once

#include <string>

#include "src/emulate/emulation.h"

namespace nestor {

class EmulatedLibrary {
 public:
  explicit EmulatedLibrary(const std::string& path);
  ~EmulatedLibrary();
  EmulatedLibrary(const EmulatedLibrary&) = delete;

  bool loaded() const { return handle_ && attach && shared_memory && image; }
  bool traced() const;                                          // it tells of its accesses to memory
  const EmulatedKernel* kernel(const std::string& name) const;  // null: it has none

  // Its functions nestor_attach, nestor_shared_memory, nestor_image.
  void (*attach)(Emulation*) = nullptr;
  size_t (*shared_memory)(char** begin) = nullptr;
  void (*image)(char** begin, char** end) = nullptr;

 private:
  void* handle_;
};

}  // namespace nestor
