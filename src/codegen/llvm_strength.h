// LLVM's loop strength reduction. It tries sums of all that an address varies with as the pointers of a loop.
// Where strides are sizes, that takes a third of LLVM's time if it is done for all loops; only short
// innermost ones get faster by it.
#pragma once

#include <llvm/IR/PassManager.h>

#include <functional>

#include "nestor/ir.h"

namespace nestor {

// Marks functions some of whose strides are open sizes.
bool has_open_strides(const PrimFunc& lowered);
inline constexpr const char* kOpenStrides = "nestor-open-strides";

class ReduceStrength : public llvm::PassInfoMixin<ReduceStrength> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

// Runs what adds passes that make machine code, without the same pass for all functions.
void without_strength_reduction(const std::function<void()>& add_passes);

}  // namespace nestor
