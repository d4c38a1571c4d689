// CUDA C++ from lowered functions, and what can be done with it on this machine. NVRTC and the driver are
// loaded at run time (dlopen), so one binary serves machines with and without them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "nestor/ir.h"
#include "nestor/target.h"
#include "nestor/tensor.h"

namespace nestor {

// How one kernel is launched: `extern "C" __global__ void NAME(ARGS)`.
struct CudaKernel {
  std::string name;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // x, y, z; where one is 0, nothing is launched
  std::vector<int> args;     // the function's parameter of that number; from params.size() on its temporaries
  int64_t shared_bytes = 0;  // static, declared inside the kernel
};

// A function on the device: its kernels, launched one after the other on one stream, and the device memory
// they share.
struct CudaProgram {
  std::string source;  // all kernels
  std::vector<CudaKernel> kernels;
  std::vector<int64_t> temporary_bytes;
};

// Of a function lowered for CUDA: one kernel per statement of the top level. UserError for what CUDA code
// can't do.
CudaProgram make_cuda(const PrimFunc& lowered, const Target& target);
inline std::string emit_cuda(const PrimFunc& lowered, const Target& target) {
  return make_cuda(lowered, target).source;
}

struct CudaStatus {
  std::string nvrtc;  // version, empty where the library isn't found
  std::string gpu;    // name of the first device, empty where there is none
};
CudaStatus cuda_status();

// UserError where NVRTC is missing, or with its log where it refuses.
std::string compile_ptx(const std::string& source, const Target& target);
std::string compile_cubin(const std::string& source, const Target& target);

// Runs the lowered function on the first GPU, through the driver. `args`: one flat tensor per parameter,
// packed by its layout; outs are written. UserError where there is no GPU, or one that can't run code for the
// target.
void run_cuda(const PrimFunc& lowered, const Target& target, std::vector<Tensor>& args);

}  // namespace nestor
