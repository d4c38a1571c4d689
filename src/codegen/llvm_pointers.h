// Loads of an innermost loop through pointers, not by a base and a counter.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class WalkByPointers : public llvm::PassInfoMixin<WalkByPointers> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
