// A row of a register tile broadcasts an element and multiplies some vectors by it. AVX-512's multiply-add
// broadcasts an element in memory by itself, in the same micro-operation (if its address is one register:
// llvm_pointers.cpp), but loads it each time. A core that takes up few micro-operations a cycle, half of them
// where its other thread runs, is short of those, and has loads to spare: two a cycle, as many as it does
// multiply-adds. So in some rows, evenly spread, each multiply-add broadcasts by itself: as many as leave
// part of the loads free. (Cascade Lake beside a busy other thread, 6 x 4 vectors: 2 such rows of 6 take 3 %
// less time, 8 x 3 with 2 of 8 5, 14 x 2 with 4 of 14 6; alone none. Of all rows 18, 10 and 5 more.) Rows
// whose elements lie a line or more apart wait for each of these loads (256x784x128 of a transposed operand
// 20 % more time, 1x1 of 96 to 144 channels on an image in planes 10): they are left alone.
#include "src/codegen/llvm_broadcasts.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "src/codegen/llvm_pointers.h"

namespace nestor {

namespace {

constexpr int64_t kLine = 64;        // bytes
constexpr double kLoadsTaken = 0.7;  // of those that execute while the multiply-adds do
constexpr size_t kMostUses = 4;      // of an element: by as many kinds of loads that LLVM keeps apart

// An element broadcast to all lanes for multiply-adds only.
struct Broadcast {
  llvm::LoadInst* load;
  llvm::Instruction *insert, *splat;
  std::vector<llvm::Instruction*> uses;
};

bool is_call_of(const llvm::User* user, llvm::Intrinsic::ID intrinsic) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(user);
  return call && call->getIntrinsicID() == intrinsic;
}

bool is_multiply_add(const llvm::User* user) {
  return is_call_of(user, llvm::Intrinsic::fma) && user->getType()->isVectorTy() &&
         user->getType()->getPrimitiveSizeInBits() == 512;
}

// Whether a load stays within a line for some steps of the loop.
bool is_dense(llvm::LoadInst& load, const llvm::Loop& loop, llvm::ScalarEvolution& scev) {
  const auto moving = moving_of(load, loop, scev);
  return moving && std::abs(moving->step) < kLine;
}

std::optional<Broadcast> broadcast_of(llvm::Instruction& i) {
  auto* splat = llvm::dyn_cast<llvm::ShuffleVectorInst>(&i);
  if (!splat || !splat->isZeroEltSplat()) return {};
  auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(splat->getOperand(0));
  auto* load =
      insert && insert->hasOneUse() ? llvm::dyn_cast<llvm::LoadInst>(insert->getOperand(1)) : nullptr;
  if (!load || !load->hasOneUse() || !load->isSimple() || load->getParent() != i.getParent()) return {};
  Broadcast b{load, insert, splat, {}};
  for (llvm::User* user : splat->users()) {
    auto* use = llvm::cast<llvm::Instruction>(user);
    if (!is_multiply_add(use) || use->getParent() != i.getParent()) return {};
    b.uses.push_back(use);
  }
  return b;
}

// Every use gets a load of its own. LLVM makes one of loads that are alike; these differ in what is said of
// their memory. That it is invariant holds as long as the loop runs, which writes nothing, and no pass behind
// this one takes loads out whose addresses move.
void split(const Broadcast& b) {
  llvm::LLVMContext& context = b.load->getContext();
  auto* one = llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), 1));
  for (size_t n = 1; n < b.uses.size(); ++n) {
    auto* load = llvm::cast<llvm::LoadInst>(b.load->clone());
    load->insertAfter(b.load);
    if (n & 1) load->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context, one));
    if (n & 2) load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
    auto* insert = b.insert->clone();
    insert->setOperand(1, load);
    insert->insertBefore(b.uses[n]);
    auto* splat = b.splat->clone();
    splat->setOperand(0, insert);
    splat->insertAfter(insert);
    b.uses[n]->replaceUsesOfWith(b.splat, splat);
  }
}

void split_some(const llvm::Loop& loop, llvm::ScalarEvolution& scev) {
  llvm::BasicBlock& block = *loop.getHeader();
  std::vector<Broadcast> rows;
  size_t loads = 0, multiply_adds = 0;
  for (llvm::Instruction& i : block) {
    if (i.mayWriteToMemory() && !is_call_of(&i, llvm::Intrinsic::prefetch)) return;
    loads += llvm::isa<llvm::LoadInst>(i);
    multiply_adds += is_multiply_add(&i);
    if (auto b = broadcast_of(i);
        b && b->uses.size() >= 2 && b->uses.size() <= kMostUses && is_dense(*b->load, loop, scev))
      rows.push_back(std::move(*b));
  }
  if (rows.size() < 2) return;
  const double spare = kLoadsTaken * static_cast<double>(multiply_adds) - static_cast<double>(loads);
  const auto more = static_cast<double>(rows[0].uses.size() - 1);
  const auto n = static_cast<size_t>(std::clamp(spare / more, 0.0, static_cast<double>(rows.size()) / 2));
  for (size_t r = 0; r < n; ++r) split(rows[(2 * r + 1) * rows.size() / (2 * n)]);
}

}  // namespace

llvm::PreservedAnalyses SplitBroadcasts::run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses) {
  const llvm::LoopInfo& loops = analyses.getResult<llvm::LoopAnalysis>(f);
  auto& scev = analyses.getResult<llvm::ScalarEvolutionAnalysis>(f);
  for (llvm::Loop* loop : loops.getLoopsInPreorder())
    if (loop->isInnermost() && loop->getNumBlocks() == 1) split_some(*loop, scev);
  return llvm::PreservedAnalyses::none();
}

}  // namespace nestor
