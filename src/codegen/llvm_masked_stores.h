// Stores under masks that are known, by stores without.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class SplitMaskedStores : public llvm::PassInfoMixin<SplitMaskedStores> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
