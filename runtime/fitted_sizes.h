// The numbers of a plan with symbolic sizes, for the inputs of a run (sizes_rt.h).
#pragma once

#include <string>
#include <vector>

#include "nestor/runtime.h"
#include "runtime/sizes_rt.h"

namespace nestor {

// The dimensions of all inputs, one after another; UserError where these can't be the inputs' shapes.
std::vector<int64_t> dims_of(const std::vector<PlanTensor>& inputs,
                             const std::vector<Runnable::Shape>& shapes);

class FittedSizes {
 public:
  FittedSizes(const PlanSizes& plan, KernelFn kernel);
  ~FittedSizes();
  FittedSizes(const FittedSizes&) = delete;

  // True where they are others than before. Throws UserError where a size is out of bounds or sizes
  // contradict each other. dims: of all inputs, one after another.
  bool fit(const std::vector<int64_t>& dims);
  // Throws UserError where that size of a symbol isn't what the model requires.
  void found(int64_t symbol, int64_t size);
  std::string given();  // for messages: "; dimension 0 of input 'x' (n) is 4"
  void forget();        // the next fit() begins anew
  const nestor_sizes& plan() const { return plan_; }
  const int64_t* numbers() const { return fit_->numbers; }
  const int64_t* symbols() const { return fit_->symbols; }
  const int64_t* offsets() const { return fit_->offsets; }
  int64_t arena_bytes() const { return fit_->arena_bytes; }
  int64_t workspace_bytes() const { return fit_->workspace_bytes; }

 private:
  std::vector<nestor_symbol> symbols_;
  std::vector<nestor_size_check> checks_;
  std::vector<nestor_requirement> requirements_;
  std::vector<nestor_in_arena> arena_;
  nestor_sizes plan_{};
  nestor_fit* fit_ = nullptr;
};

}  // namespace nestor
