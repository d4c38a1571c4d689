// Broadcast elements of an innermost loop as operands of multiply-adds, some of them.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class SplitBroadcasts : public llvm::PassInfoMixin<SplitBroadcasts> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
