// A tile's rows lie at constant distances, so that one pointer with an offset for each reaches all of them.
// LLVM's strength reduction finds that out by taking the sums apart that addresses are, and stops three loops
// up. Behind that the rows look unrelated: each gets a pointer of its own, which is stored, loaded and moved
// along in every loop around (a 3x3 convolution of bytes over 64 channels: 14 pointers for 4 steps of 28
// instructions, a quarter of the time).
//
// So what comes from the loops around is made one number before the innermost loop begins: `freeze`, which is
// no instruction of the machine's, ends what the analysis sees. A loop behind another one, as those of a
// window's taps, begins in a block of its own for that. (Zen 3, 3x3x3 of 32 channels at 8x28x28 4.3 to 3.2
// ms, of 16 to 32 at 16x56x56 by 2 2.9 to 1.8.)
#include "src/codegen/llvm_addresses.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Transforms/Utils/LoopUtils.h>

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
  auto& loops = analyses.getResult<llvm::LoopAnalysis>(f);
  auto& dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(f);
  for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (!loop->isInnermost() || loop->getLoopDepth() < kDepth) continue;
    llvm::BasicBlock* before = loop->getLoopPreheader();
    if (!before) before = llvm::InsertPreheaderForLoop(loop, &dominators, &loops, nullptr, false);
    if (!before) continue;
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
