#include "llvm_strength.h"

#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopStrengthReduce.h>

#include <algorithm>
#include <mutex>

#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor {

bool has_open_strides(const PrimFunc& lowered) {
  if (lowered.dims.empty()) return false;
  bool found = false;
  const auto see = [&](const Expr& index) {
    for_each_expr(index, [&](const Expr& e) {
      const auto* product = e.as<Binary>();
      found =
          found || (product && product->op == BinaryOp::mul && !as_int(product->a) && !as_int(product->b));
    });
  };
  for_each_expr(lowered.body, [&](const Expr& e) {
    if (const auto* load = e.as<Load>()) see(load->indices.at(0));
  });
  for_each_stmt(lowered.body, [&](const Stmt& s) {
    if (const auto* store = s.as<Store>()) see(store->indices.at(0));
  });
  return found;
}

namespace {

struct ReduceShort : llvm::PassInfoMixin<ReduceShort> {
  llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager& analyses,
                              llvm::LoopStandardAnalysisResults& results, llvm::LPMUpdater& updater) {
    constexpr size_t kMost = 24;  // instructions: none of our models gains by more
    if (loop.getNumBlocks() > 1 || loop.getHeader()->size() > kMost) return llvm::PreservedAnalyses::all();
    return llvm::LoopStrengthReducePass().run(loop, analyses, results, updater);
  }
};

}  // namespace

llvm::PreservedAnalyses ReduceStrength::run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses) {
  if (f.hasFnAttribute(kOpenStrides))
    return llvm::createFunctionToLoopPassAdaptor(ReduceShort()).run(f, analyses);
  return llvm::createFunctionToLoopPassAdaptor(llvm::LoopStrengthReducePass()).run(f, analyses);
}

void without_strength_reduction(const std::function<void()>& add_passes) {
  static std::mutex mutex;  // the option is LLVM's, one for all
  const std::lock_guard lock(mutex);
  auto* off = static_cast<llvm::cl::opt<bool>*>(llvm::cl::getRegisteredOptions().lookup("disable-lsr"));
  NESTOR_CHECK(off) << "this LLVM has no option -disable-lsr";
  const bool before = off->getValue();
  off->setValue(true);
  add_passes();
  off->setValue(before);
}

}  // namespace nestor
