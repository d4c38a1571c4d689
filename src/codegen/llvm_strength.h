// LLVM's loop strength reduction, for functions of known sizes only. It tries sums of all that an address
// varies with as the pointers of a loop. With strides that are known, loops get better; with strides that are
// sizes, it takes a third of LLVM's time, and loops are as fast as before.
#pragma once

#include <llvm/IR/PassManager.h>

#include <functional>

#include "nestor/ir.h"

namespace nestor {

// Marks functions whose addresses or trip counts depend on open sizes.
bool has_open_strides(const PrimFunc& lowered);
inline constexpr const char* kOpenStrides = "nestor-open-strides";

class ReduceStrength : public llvm::PassInfoMixin<ReduceStrength> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& f, llvm::FunctionAnalysisManager& analyses);
};

// Runs what adds passes that make machine code, without the same pass for all functions.
void without_strength_reduction(const std::function<void()>& add_passes);

}  // namespace nestor
