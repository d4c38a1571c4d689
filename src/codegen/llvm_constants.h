// Constant vectors as memory operands of multiply-adds.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class ConstantsInMemory : public llvm::PassInfoMixin<ConstantsInMemory> {
 public:
  llvm::PreservedAnalyses run(llvm::Module& m, llvm::ModuleAnalysisManager& analyses);
};

}  // namespace nestor
