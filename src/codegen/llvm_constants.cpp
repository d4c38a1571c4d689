// A polynomial is a chain of multiply-adds, each of which adds a constant. AVX-512 broadcasts one in memory
// as part of the instruction. AVX2 can't: LLVM makes a broadcast of its own of each constant, for it to be
// held in one of 16 registers, where there are twenty. A whole vector in memory is again part of the
// instruction, a micro-operation less each time. (Zen 3, GELU: 43 instead of 51 instructions a vector, 4 %
// less time.)
//
// The vectors are marked as initialized from outside: else LLVM sees through them to the constants.
#include "llvm_constants.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <map>

namespace nestor {

namespace {

llvm::Constant* added_constant(const llvm::IntrinsicInst& call) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(call.getType());
  if (call.getIntrinsicID() != llvm::Intrinsic::fma || !type || type->getPrimitiveSizeInBits() < 128)
    return nullptr;
  auto* c = llvm::dyn_cast<llvm::Constant>(call.getArgOperand(2));
  return c && c->getSplatValue() && !c->isNullValue() ? c : nullptr;
}

}  // namespace

llvm::PreservedAnalyses ConstantsInMemory::run(llvm::Module& m, llvm::ModuleAnalysisManager&) {
  std::map<llvm::Constant*, llvm::GlobalVariable*> vectors;
  for (llvm::Function& f : m)
    for (llvm::BasicBlock& block : f)
      for (llvm::Instruction& i : block) {
        auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
        llvm::Constant* c = call ? added_constant(*call) : nullptr;
        if (!c) continue;
        llvm::GlobalVariable*& v = vectors[c];
        if (!v) {
          v = new llvm::GlobalVariable(m, c->getType(), true, llvm::GlobalValue::PrivateLinkage, c,
                                       "constants");
          v->setExternallyInitialized(true);
        }
        call->setArgOperand(2, llvm::IRBuilder<>(call).CreateLoad(c->getType(), v));
      }
  return vectors.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

}  // namespace nestor
