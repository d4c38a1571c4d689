// A lowered function divided into kernels: one for each top-level statement that runs on blocks and threads,
// and one with a single thread for the statements between them.
#pragma once

#include <string>
#include <vector>

#include "nestor/cuda.h"
#include "nestor/target.h"

namespace nestor {

struct KernelPart {
  CudaKernel launch;
  // Blocks along x, y and z as the loops have them. The hardware takes fewer along y and z than along x:
  // where there are more, launch.grid has all of them along x.
  std::array<int64_t, 3> blocks{1, 1, 1};
  Stmt body;
  std::vector<BufferDecl> arguments;  // of launch.args, in order
  std::vector<BufferDecl> outer;      // shared and local buffers declared around the kernel's loops
};

struct KernelParts {
  std::vector<KernelPart> kernels;
  std::vector<BufferDecl> temporaries;  // in device memory
};

KernelParts cut_kernels(const PrimFunc& lowered, const Target& target);

int64_t bytes_of_shared(const BufferDecl& decl);  // where it begins at 16 bytes, and so does the next one
int64_t elements_of(const BufferDecl& decl);      // UserError where they aren't constant
// 0, 1, 2 for x, y, z; true in `is_block` for blockIdx.
int axis_of(ThreadTag tag, bool& is_block);

}  // namespace nestor
