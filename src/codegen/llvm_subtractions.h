// Loads of a loop less what doesn't change in it, as sums whose operands they can be.
#pragma once

#include <llvm/IR/PassManager.h>

namespace nestor {

class AddNegated : public llvm::PassInfoMixin<AddNegated> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
