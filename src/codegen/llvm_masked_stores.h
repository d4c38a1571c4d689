// Replaces stores under known masks by stores without masks.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class SplitMaskedStores : public llvm::PassInfoMixin<SplitMaskedStores> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
