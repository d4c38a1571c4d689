// An x86 subtraction takes its second operand from memory, not its first. So `x[i] - mean` is a load and a
// subtraction, `x[i] + negated` one micro-operation, and the same number. Where the subtrahend doesn't change
// in a loop it is negated before. (LLVM makes a subtraction of a sum with a negated value in one block.)
#include "src/codegen/llvm_subtractions.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <map>
#include <vector>

#include "nestor/error.h"

namespace nestor {

namespace {

// Whether i subtracts from what it alone loads.
bool takes_from_load(const llvm::Instruction& i) {
  if (i.getOpcode() != llvm::Instruction::FSub) return false;
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(i.getOperand(0));
  return load && load->hasOneUse() && load->isSimple() && load->getParent() == i.getParent();
}

// Whether the loop uses `v` only so: else it would take a register beside its negative.
bool only_subtracts(const llvm::Loop& loop, const llvm::Value& v) {
  return std::all_of(v.user_begin(), v.user_end(), [&](const llvm::User* u) {
    const auto* use = llvm::cast<llvm::Instruction>(u);
    return !loop.contains(use) || (takes_from_load(*use) && use->getOperand(1) == &v);
  });
}

}  // namespace

llvm::PreservedAnalyses AddNegated::run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses) {
  const llvm::LoopInfo& loops = analyses.getResult<llvm::LoopAnalysis>(f);
  std::vector<llvm::Instruction*> found;
  for (llvm::BasicBlock& block : f)
    if (const llvm::Loop* loop = loops.getLoopFor(&block))
      for (llvm::Instruction& i : block)
        if (takes_from_load(i))
          if (auto* less = llvm::dyn_cast<llvm::Instruction>(i.getOperand(1));
              less && loop->isLoopInvariant(less) && only_subtracts(*loop, *less))
            found.push_back(&i);
  std::map<llvm::Value*, llvm::Value*> negated;
  for (llvm::Instruction* i : found) {
    auto* less = llvm::cast<llvm::Instruction>(i->getOperand(1));
    llvm::Value*& negative = negated[less];
    if (!negative) {
      const auto behind = less->getInsertionPointAfterDef();
      NESTOR_CHECK(behind.has_value()) << "a subtrahend that nothing can stand behind";
      negative = llvm::IRBuilder<>(&**behind).CreateFNeg(less);
    }
    auto* sum = llvm::BinaryOperator::CreateFAdd(i->getOperand(0), negative, "", i->getIterator());
    sum->copyFastMathFlags(i);
    i->replaceAllUsesWith(sum);
  }
  for (llvm::Instruction* i : found) i->eraseFromParent();  // whose addresses were keys
  return found.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

}  // namespace nestor
