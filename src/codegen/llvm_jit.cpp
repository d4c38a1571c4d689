// Machine code in this process: the same object that an artifact would hold, linked into memory by LLVM's
// ORC. Each module has its own context and JIT, so that compiling from several threads needs no lock.
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <cmath>

#include "llvm_module.h"
#include "nestor/codegen.h"
#include "nestor/error.h"
#include "runtime/kernel_rt.h"

namespace nestor {

struct JitModule::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

JitModule::JitModule() : impl_(std::make_unique<Impl>()) {}
JitModule::~JitModule() = default;

namespace {

template <class T>
T take(llvm::Expected<T> value, const char* what) {
  if (!value) throw InternalError(std::string(what) + ": " + llvm::toString(value.takeError()));
  return std::move(*value);
}
void take(llvm::Error error, const char* what) {
  if (error) throw InternalError(std::string(what) + ": " + llvm::toString(std::move(error)));
}

// What kernels call. Named one by one: nothing else of this process can be reached by accident.
void define_symbols(llvm::orc::LLJIT& jit) {
  using One = double (*)(double);
  using Two = double (*)(double, double);
  llvm::orc::SymbolMap symbols;
  const auto add = [&](const char* name, auto* address) {
    symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  add("nestor_parallel", &nestor_parallel);
  add("exp", static_cast<One>(&std::exp));
  add("expm1", static_cast<One>(&std::expm1));
  add("log", static_cast<One>(&std::log));
  add("log1p", static_cast<One>(&std::log1p));
  add("tanh", static_cast<One>(&std::tanh));
  add("erf", static_cast<One>(&std::erf));
  add("sin", static_cast<One>(&std::sin));
  add("cos", static_cast<One>(&std::cos));
  add("pow", static_cast<Two>(&std::pow));
  // LLVM makes these of what a target has no instruction for.
  add("fma", static_cast<double (*)(double, double, double)>(&std::fma));
  add("fmaf", static_cast<float (*)(float, float, float)>(&std::fma));
  take(jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))),
       "defining the kernels' symbols");
}

}  // namespace

std::shared_ptr<JitModule> JitModule::compile(const std::vector<PrimFunc>& lowered, const Target& target) {
  require_runs_here(target);
  const auto machine = make_target_machine(target);
  std::string object;
  {
    llvm::LLVMContext context;
    const auto module = build_module(lowered, target, *machine, context);
    optimize_module(*module, *machine);
    object = emit_machine_code(*module, *machine, false);
  }
  std::shared_ptr<JitModule> result(new JitModule);
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(target.triple)};
  builder.setRelocationModel(llvm::Reloc::PIC_);
  result->impl_->jit =
      take(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create(), "making the JIT");
  define_symbols(*result->impl_->jit);
  take(result->impl_->jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object, "kernels")),
       "linking kernels");
  // Linking is lazy, by symbol: do it here, not in the first lookup of a timed run.
  for (const PrimFunc& f : lowered) result->lookup(f.name);
  return result;
}

KernelFn JitModule::lookup(const std::string& name) const {
  return take(impl_->jit->lookup(kernel_symbol(name)), "looking up a kernel").toPtr<KernelFn>();
}

}  // namespace nestor
