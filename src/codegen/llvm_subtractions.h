// Turns `load - invariant` in a loop into a sum, which can have the load as its memory operand.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class AddNegated : public llvm::PassInfoMixin<AddNegated> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
