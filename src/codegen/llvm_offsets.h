// Constant parts of addresses, which an instruction adds for nothing.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class AddOffsetsLast : public llvm::PassInfoMixin<AddOffsetsLast> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager&);
};

}  // namespace nestor
