// What is left over of a vector is stored under a mask, of so many first lanes. AMD's cores with AVX2 alone
// take that apart into some 40 micro-operations, 12 cycles; 7 lanes are three stores, of 4, 2 and 1, and two
// shuffles. (Zen 3, Transpose of 16x48x7 by rows 3.0 to 0.8 us; 873x17x23 24 % less time.)
#include "src/codegen/llvm_masked_stores.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

namespace nestor {

namespace {

constexpr uint64_t kRegister = 256;  // bits

// How many first lanes the mask has, and no others; 0: another one.
unsigned first_lanes(const llvm::Value* mask) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  if (!constant || !type) return 0;
  unsigned n = 0;
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    const llvm::Constant* c = constant->getAggregateElement(lane);
    if (!c || !(c->isOneValue() || c->isNullValue())) return 0;
    if (c->isOneValue() && n < lane) return 0;
    n += c->isOneValue();
  }
  return n;
}

// Whether a masked load of the same place stands beside the store: the next one gets what is stored passed on
// only whole.
bool is_read_again(const llvm::IntrinsicInst& store) {
  return std::any_of(store.getParent()->begin(), store.getParent()->end(), [&](const llvm::Instruction& i) {
    const auto* load = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    return load && load->getIntrinsicID() == llvm::Intrinsic::masked_load &&
           load->getArgOperand(0) == store.getArgOperand(1);
  });
}

void split(llvm::IntrinsicInst& store, unsigned lanes) {
  llvm::IRBuilder<> b(&store);
  llvm::Value *value = store.getArgOperand(0), *pointer = store.getArgOperand(1);
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  llvm::Type* element = type->getElementType();
  const uint64_t bits = element->getPrimitiveSizeInBits(), bytes = bits / 8;
  const llvm::Align align = llvm::cast<llvm::ConstantInt>(store.getArgOperand(2))->getAlignValue();
  for (unsigned from = 0, n = 0; from < lanes; from += n) {
    n = std::bit_floor(std::min(lanes - from, static_cast<unsigned>(kRegister / bits)));
    std::vector<int> pick(n);
    std::iota(pick.begin(), pick.end(), static_cast<int>(from));
    llvm::Value* part = n == 1 ? b.CreateExtractElement(value, from) : b.CreateShuffleVector(value, pick);
    b.CreateAlignedStore(part, b.CreateConstInBoundsGEP1_64(element, pointer, from),
                         llvm::commonAlignment(align, from * bytes));
  }
  store.eraseFromParent();
}

}  // namespace

llvm::PreservedAnalyses SplitMaskedStores::run(llvm::Function& f, llvm::FunctionAnalysisManager&) {
  std::vector<llvm::IntrinsicInst*> found;
  for (llvm::BasicBlock& block : f)
    for (llvm::Instruction& i : block)
      if (auto* store = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
          store && store->getIntrinsicID() == llvm::Intrinsic::masked_store &&
          first_lanes(store->getArgOperand(3)) > 0 && !is_read_again(*store))
        found.push_back(store);
  for (llvm::IntrinsicInst* store : found) split(*store, first_lanes(store->getArgOperand(3)));
  return found.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

}  // namespace nestor
