// CUDA C++ from lowered functions, and what can be done with it on this machine. NVRTC and the driver are
// loaded at run time (dlopen), so one binary serves machines with and without them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "nestor/cuda_executor.h"
#include "nestor/ir.h"
#include "nestor/target.h"
#include "nestor/tensor.h"

namespace nestor {

// How one kernel is launched: `extern "C" __global__ void NAME(ARGS)`.
struct CudaKernel {
  std::string name;  // kernel_FUNCTION; kernel1_FUNCTION, kernel2_FUNCTION ... where it has several
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // x, y, z; where one is 0, nothing is launched
  std::vector<int> args;     // the function's parameter of that number; from params.size() on its temporaries
  int64_t shared_bytes = 0;  // of a block
  int64_t dynamic_shared =
      0;               // all of these, where they are too many to be declared: the launch asks for them
  bool waits = false;  // threads of a block wait for one another
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

// Several functions in one source, for which NVRTC makes one module; their names differ.
struct CudaModule {
  std::string source;
  std::vector<CudaProgram> functions;  // without sources of their own
};
CudaModule make_cuda_module(const std::vector<PrimFunc>& lowered, const Target& target);

// module: of the plan's kernels, in order.
CudaPlan make_cuda_plan(const Plan& plan, const CudaModule& module);
// Comments for the top of a model's source: what is launched, in which order, and where its arguments lie.
std::string describe(const CudaPlan& plan);

// "cuda:sm_80,sm_90": the targets named, the oldest first; of others the one target.
std::vector<Target> parse_targets(const std::string& names);
// Machine code for each target, and PTX of the newest that newer devices can compile. UserError as of
// compile_ptx.
std::vector<CudaImage> compile_images(const std::string& source, const std::vector<Target>& targets);

struct CudaStatus {
  std::string nvrtc;  // version, empty where the library isn't found
  std::string gpu;    // name of the first device, empty where there is none
  double gflops = 0;  // of it, what FMAs of f32 come to: multiprocessors x lanes x clock
};
CudaStatus cuda_status();

int nvrtc_version();  // 13000 is 13.0; 0 where there is none
// UserError where NVRTC is missing, or with its log where it refuses.
std::string compile_ptx(const std::string& source, const Target& target);
std::string compile_cubin(const std::string& source, const Target& target);
// What the compiler gives each kernel of a source.
struct KernelResources {
  std::string kernel;
  int registers = 0;                           // of a thread
  int64_t spilled_bytes = 0, stack_bytes = 0;  // of a thread, in local memory: what its registers don't hold
};
std::vector<KernelResources> kernel_resources(const std::string& source, const Target& target);

}  // namespace nestor
