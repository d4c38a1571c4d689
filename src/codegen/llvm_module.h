// A module of kernels through LLVM's passes to assembly or an object; shared by the emitters and the JIT.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm

namespace nestor {

// The symbol of a kernel. No C identifier has a dot, so that no function of the C library, of the runtime or
// of an artifact's interface is called the same, whatever a user calls his functions.
std::string kernel_symbol(const std::string& name);

// Registers what LLVM can make code for; whoever looks a target up calls it first.
void initialize_llvm();

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);
std::unique_ptr<llvm::Module> build_module(const std::vector<PrimFunc>& lowered, const Target& target,
                                           llvm::TargetMachine& machine, llvm::LLVMContext& context);
// One function whose instructions have the lines of its printed text.
std::unique_ptr<llvm::Module> build_module_with_lines(const PrimFunc& lowered, const Target& target,
                                                      llvm::TargetMachine& machine,
                                                      llvm::LLVMContext& context);
void optimize_module(llvm::Module& module, llvm::TargetMachine& machine);
std::string emit_machine_code(llvm::Module& module, llvm::TargetMachine& machine, bool assembly);

}  // namespace nestor
