// Moves the constant parts of addresses into the instructions, where they cost nothing.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class AddOffsetsLast : public llvm::PassInfoMixin<AddOffsetsLast> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager&);
};

}  // namespace nestor
