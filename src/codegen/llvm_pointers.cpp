// A tile's step multiplies by elements at constant distances from each other, each an operand in memory of
// its multiply-add. LLVM reaches them by a base and the loop's counter, since no pointer has to be moved
// along then. But Intel's cores keep such an instruction in one micro-operation only where its address is one
// register: three registers of the multiply-add and a second one of the address are too many, and it is taken
// up as two. (Cascade Lake, 4 a cycle: 26 of them in a step take 6.9 ns instead of 6.0; where the core's
// other thread runs, 10.8 instead of 8.8. A 7x7 convolution of 16 filters 1.33 to 1.0 ms.)
//
// So such loads go through a pointer that moves along, and the loop ends where the pointer does: a counter
// that nothing else needs is gone, and the step is no longer. Not where others of the loop go by the same
// step: strength reduction has one counter for all of them (a depthwise convolution and its weights, 3 % more
// time).
#include "src/codegen/llvm_pointers.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <algorithm>
#include <map>

namespace nestor {

namespace {

constexpr int64_t kLeastLoads = 4;  // for which moving a pointer along pays

// Loads of one step at constant distances from the one that stands last. Strength reduction reaches the
// others from there: a pointer to another one would be moved once to load and once to be compared.
struct Walk {
  const llvm::SCEVAddRecExpr* last;
  int64_t step;  // bytes
  std::vector<std::pair<llvm::LoadInst*, int64_t>> loads;
};

// Whether the load becomes an operand in memory of a multiply-add, or of an instruction's, as a vector or as
// its lanes: these are calls.
bool is_operand(const llvm::LoadInst& load) {
  const llvm::Instruction* i = &load;
  while (i->hasOneUse()) {
    i = llvm::cast<llvm::Instruction>(*i->user_begin());
    if (llvm::isa<llvm::CallInst>(i)) return true;
    if (!llvm::isa<llvm::InsertElementInst, llvm::ShuffleVectorInst, llvm::BitCastInst>(i)) return false;
  }
  return false;
}

// What the loop reads or writes at addresses that move by as much in each step.
std::vector<Moving> all_moving_of(const llvm::Loop& loop, llvm::ScalarEvolution& scev) {
  std::vector<Moving> out;
  for (llvm::BasicBlock* block : loop.blocks())
    for (llvm::Instruction& i : *block)
      if (const auto moving = moving_of(i, loop, scev)) out.push_back(*moving);
  return out;
}

// Loads at constant distances from each other, one kind after the other.
std::vector<Walk> loads_by_distance(const std::vector<Moving>& all, llvm::ScalarEvolution& scev) {
  std::vector<Walk> walks;
  for (auto m = all.rbegin(); m != all.rend(); ++m) {  // from the last one
    auto* load = llvm::dyn_cast<llvm::LoadInst>(m->access);
    if (!load) continue;
    const llvm::SCEVConstant* distance = nullptr;
    for (Walk& w : walks) {
      distance = llvm::dyn_cast<llvm::SCEVConstant>(scev.getMinusSCEV(m->address, w.last));
      if (distance) w.loads.emplace_back(load, distance->getAPInt().getSExtValue());
      if (distance) break;
    }
    if (!distance) walks.push_back({m->address, m->step, {{load, 0}}});
  }
  return walks;
}

// Those of which some are operands, and all that are near these, lest they need the counter.
std::vector<Walk> walks_of(const llvm::Loop& loop, llvm::ScalarEvolution& scev) {
  const std::vector<Moving> all = all_moving_of(loop, scev);
  std::vector<Walk> walks = loads_by_distance(all, scev);
  std::erase_if(walks, [](const Walk& w) {
    const auto operands =
        std::count_if(w.loads.begin(), w.loads.end(), [](const auto& l) { return is_operand(*l.first); });
    return operands < kLeastLoads;
  });
  std::map<int64_t, size_t> at_step;  // accesses
  for (const Moving& m : all) ++at_step[m.step];
  std::erase_if(walks, [&](const Walk& w) { return at_step[w.step] > w.loads.size(); });
  return walks;
}

llvm::Value* bytes_on(llvm::IRBuilder<>& b, llvm::Value* pointer, int64_t bytes) {
  return b.CreateGEP(b.getInt8Ty(), pointer, b.getInt64(static_cast<uint64_t>(bytes)));
}

// The loop's loads of `w` go through a pointer; gives where it stands after the step.
llvm::Value* add_pointer(const llvm::Loop& loop, const Walk& w, llvm::Value* start) {
  llvm::IRBuilder<> head(loop.getHeader(), loop.getHeader()->begin());
  llvm::PHINode* pointer = head.CreatePHI(start->getType(), 2);
  llvm::IRBuilder<> tail(loop.getLoopLatch()->getTerminator());
  llvm::Value* next = bytes_on(tail, pointer, w.step);
  pointer->addIncoming(start, loop.getLoopPreheader());
  pointer->addIncoming(next, loop.getLoopLatch());
  for (const auto& [load, distance] : w.loads) {
    llvm::Value* by_counter = load->getPointerOperand();
    llvm::IRBuilder<> at(load);
    load->setOperand(0, bytes_on(at, pointer, distance));
    llvm::RecursivelyDeleteTriviallyDeadInstructions(by_counter);
  }
  return next;
}

// The loop, which turns back `turns` times, ends where the pointer, `next` after a step, does.
void end_by_pointer(const llvm::Loop& loop, const Walk& w, llvm::Value* start, llvm::Value* next,
                    llvm::Value* turns) {
  auto* back = llvm::cast<llvm::BranchInst>(loop.getLoopLatch()->getTerminator());
  llvm::IRBuilder<> before(loop.getLoopPreheader()->getTerminator()), tail(back);
  llvm::Value* steps = before.CreateAdd(turns, before.getInt64(1));
  llvm::Value* end = before.CreateGEP(
      before.getInt8Ty(), start, before.CreateMul(steps, before.getInt64(static_cast<uint64_t>(w.step))));
  // `freeze`, which is no instruction of the machine's, hides that the two differ by a counter.
  llvm::Value* more = tail.CreateICmpNE(next, before.CreateFreeze(end));
  if (back->getSuccessor(0) != loop.getHeader()) back->swapSuccessors();
  llvm::Value* by_counter = back->getCondition();
  back->setCondition(more);
  llvm::RecursivelyDeleteTriviallyDeadInstructions(by_counter);
  llvm::DeleteDeadPHIs(loop.getHeader());
}

}  // namespace

std::optional<Moving> moving_of(llvm::Instruction& i, const llvm::Loop& loop, llvm::ScalarEvolution& scev) {
  llvm::Value* at = llvm::getLoadStorePointerOperand(&i);
  const auto* address = at ? llvm::dyn_cast<llvm::SCEVAddRecExpr>(scev.getSCEV(at)) : nullptr;
  const auto* step = address && address->getLoop() == &loop
                         ? llvm::dyn_cast<llvm::SCEVConstant>(address->getStepRecurrence(scev))
                         : nullptr;
  if (!step) return std::nullopt;
  return Moving{&i, address, step->getAPInt().getSExtValue()};
}

llvm::PreservedAnalyses WalkByPointers::run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses) {
  llvm::LoopInfo& loops = analyses.getResult<llvm::LoopAnalysis>(f);
  auto& dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(f);
  auto& scev = analyses.getResult<llvm::ScalarEvolutionAnalysis>(f);
  llvm::SCEVExpander expander(scev, f.getParent()->getDataLayout(), "walk");
  for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
    llvm::BasicBlock* latch = loop->getLoopLatch();
    if (!loop->isInnermost() || !latch || loop->getExitingBlock() != latch) continue;
    const llvm::SCEV* turns = scev.getBackedgeTakenCount(loop);
    if (llvm::isa<llvm::SCEVCouldNotCompute>(turns) || !turns->getType()->isIntegerTy(64)) continue;
    std::vector<std::pair<Walk, llvm::Value*>> walks;  // and where they start
    const std::vector<Walk> found = walks_of(*loop, scev);
    if (found.empty()) continue;
    llvm::BasicBlock* before = loop->getLoopPreheader();
    if (!before) before = llvm::InsertPreheaderForLoop(loop, &dominators, &loops, nullptr, false);
    if (!before) continue;
    for (const Walk& w : found)
      walks.emplace_back(w, expander.expandCodeFor(w.last->getStart(), nullptr, before->getTerminator()));
    llvm::Value *count = expander.expandCodeFor(turns, nullptr, before->getTerminator()), *end = nullptr;
    for (const auto& [w, start] : walks) {
      llvm::Value* next = add_pointer(*loop, w, start);
      if (!end) end = next;
    }
    end_by_pointer(*loop, walks.front().first, walks.front().second, end, count);
  }
  return llvm::PreservedAnalyses::none();
}

}  // namespace nestor
