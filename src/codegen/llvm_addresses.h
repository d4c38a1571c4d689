// Makes what an innermost loop's addresses take from the loops around it one number.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class ShareAddresses : public llvm::PassInfoMixin<ShareAddresses> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
