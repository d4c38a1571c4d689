// Makes loads of an innermost loop use moving pointers instead of a base and a counter.
#pragma once

#include <llvm/IR/PassManager.h>

#include <cstdint>
#include <optional>

namespace llvm {
class Instruction;
class Loop;
class ScalarEvolution;
class SCEVAddRecExpr;
}  // namespace llvm

namespace nestor {

// A load or store whose address moves by as many bytes in each step of a loop.
struct Moving {
  llvm::Instruction* access;
  const llvm::SCEVAddRecExpr* address;
  int64_t step;
};
// Nothing where it is none.
std::optional<Moving> moving_of(llvm::Instruction& i, const llvm::Loop& loop, llvm::ScalarEvolution& scev);

class WalkByPointers : public llvm::PassInfoMixin<WalkByPointers> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace nestor
