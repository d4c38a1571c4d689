// Machine code from lowered functions: LLVM for CPUs (JIT and objects), CUDA C++ for GPUs.
//
// The kernel ABI (CPU): `int32_t f(void* const* args, void* workspace, struct nestor_pool* pool)`, with the
// symbol kernel.NAME
//  - args: one pointer per parameter, in order; aligned to the element (64 bytes are faster). They don't
//    overlap. Const parameters are packed by their layout.
//  - workspace: workspace_bytes(lowered, threads) bytes, 64-byte aligned: function-level temporaries,
//    then one slice per worker for temporaries inside parallel loops.
//  - pool: for parallel loops, `nestor_parallel_for` and `_static` of runtime/kernel_rt.h; null runs
//    serially.
//  - returns 0.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nestor/ir.h"
#include "nestor/layout.h"
#include "nestor/target.h"

namespace nestor {

using KernelFn = int32_t (*)(void* const* args, void* workspace, void* pool);

// Bytes of scratch that a lowered function needs when run on `threads` workers.
int64_t workspace_bytes(const PrimFunc& lowered, int threads);

// Compiled code in this process; functions live as long as the module. Thread safe to call, re-entrant
// kernels.
class JitModule {
 public:
  static std::shared_ptr<JitModule> compile(const std::vector<PrimFunc>& lowered, const Target& target);
  KernelFn lookup(const std::string& name) const;  // InternalError if absent
  ~JitModule();

 private:
  JitModule();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string emit_llvm_ir(const std::vector<PrimFunc>& lowered, const Target& target, bool optimized = true);
std::string emit_asm(const std::vector<PrimFunc>& lowered, const Target& target);
// A line of machine code or of CUDA source, and the line of print(lowered) that it was made of; 0: of none.
struct CodeLine {
  std::string text;
  int line = 0;
};
std::vector<CodeLine> emit_asm_with_lines(const PrimFunc& lowered,
                                          const Target& target);  // labels and instructions only
std::vector<CodeLine> emit_cuda_with_lines(const PrimFunc& lowered, const Target& target);
// The first from the text of an assembler listing; places come from its .loc directives.
std::vector<CodeLine> parse_asm(const std::string& assembly, const Target& target);
std::string emit_object(const std::vector<PrimFunc>& lowered,
                        const Target& target);  // bytes of an ELF object

// runtime/NAME.c ("kernel_rt") as LLVM bitcode for Target::arch(), to be linked into artifacts. UserError
// where there is none for the architecture.
std::string_view runtime_bitcode(std::string_view name, std::string_view arch);
inline std::string_view kernel_rt_bitcode(std::string_view arch) {
  return runtime_bitcode("kernel_rt", arch);
}

}  // namespace nestor
