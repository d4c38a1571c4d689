// Emitted CUDA run on the CPU: the text, unchanged, is compiled by the system's C++ compiler (c++, or what
// NESTOR_CXX names) behind src/emulate/emulation*.h into a library, which the emulated device loads as a real
// one loads machine code. The host's side, runtime/cuda_rt.c, is the same for both.
#pragma once

#include <string>
#include <vector>

#include "nestor/cuda.h"

namespace nestor {

class EmulatedCode {
 public:
  struct Part {
    std::string source;
    std::vector<CudaKernel> kernels;  // whose names differ among all parts
  };
  // All parts in one library. UserError where there is no compiler, with its words where it refuses the text.
  explicit EmulatedCode(const std::vector<Part>& parts);
  explicit EmulatedCode(const CudaModule& module);
  ~EmulatedCode();
  EmulatedCode(const EmulatedCode&) = delete;
  EmulatedCode& operator=(const EmulatedCode&) = delete;

  const std::string& library() const { return library_; }  // its path, as long as this lives
  CudaImage image() const { return {library_, 0, CudaForm::emulated}; }

 private:
  std::string library_;
};

const nestor_cuda_driver& emulated_driver();

}  // namespace nestor
