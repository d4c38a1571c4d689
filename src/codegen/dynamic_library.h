// A shared library looked up at run time: the CUDA toolkit's and the driver's, which the build doesn't need.
// It stays loaded until the process ends: both keep state of their own that unloading would lose or leak.
#pragma once

#include <string>
#include <vector>

namespace nestor {

class DynamicLibrary {
 public:
  // The first of the names that can be loaded; none is no error.
  explicit DynamicLibrary(const std::vector<std::string>& names);
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  bool loaded() const { return handle_ != nullptr; }
  // The function of that name; nullptr where it is missing.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  void* handle_ = nullptr;
};

}  // namespace nestor
