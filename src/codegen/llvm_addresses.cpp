// A tile's rows lie at constant distances, so that one pointer with an offset for each reaches all of them.
// LLVM's strength reduction finds that out by taking the sums apart that addresses are, and stops three loops
// up. Behind that the rows look unrelated: each gets a pointer of its own, which is stored, loaded and moved
// along in every loop around (a 3x3 convolution of bytes over 64 channels: 14 pointers for 4 steps of 28
// instructions, a quarter of the time).
//
// So what comes from the loops around is made one number before the innermost loop begins: `freeze`, which is
// no instruction of the machine's, ends what the analysis sees.
#include "src/codegen/llvm_addresses.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/IRBuilder.h>

namespace nestor {

namespace {

constexpr unsigned kDepth = 4;  // from so many loops on, the innermost one counted

// An integer that becomes part of an address, from a loop around `loop`.
bool is_outer_part(const llvm::Use& use, const llvm::Loop& loop, const llvm::LoopInfo& loops) {
  const auto* i = llvm::dyn_cast<llvm::Instruction>(use.get());
  if (!i || !i->getType()->isIntegerTy(64) || loop.contains(i) || !loops.getLoopFor(i->getParent()))
    return false;
  const auto* user = llvm::cast<llvm::Instruction>(use.getUser());
  return llvm::isa<llvm::GetElementPtrInst>(user) || user->getOpcode() == llvm::Instruction::Add ||
         user->getOpcode() == llvm::Instruction::Or;
}

}  // namespace

llvm::PreservedAnalyses ShareAddresses::run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses) {
  const llvm::LoopInfo& loops = analyses.getResult<llvm::LoopAnalysis>(f);
  for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
    llvm::BasicBlock* before = loop->getLoopPreheader();
    if (!loop->isInnermost() || loop->getLoopDepth() < kDepth || !before) continue;
    llvm::DenseMap<llvm::Value*, llvm::Value*> parts;
    llvm::IRBuilder<> builder(before->getTerminator());
    for (llvm::BasicBlock* block : loop->blocks())
      for (llvm::Instruction& i : *block)
        for (llvm::Use& use : i.operands())
          if (is_outer_part(use, *loop, loops)) {
            llvm::Value*& part = parts[use.get()];
            if (!part) part = builder.CreateFreeze(use.get());
            use.set(part);
          }
  }
  return llvm::PreservedAnalyses::none();
}

}  // namespace nestor
