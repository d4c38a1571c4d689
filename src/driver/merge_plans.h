// Several plans of one model as one that chooses among them when it is run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nestor/driver.h"
#include "nestor/walk.h"

namespace nestor {

// The plan of open sizes with those for chosen sizes in front of it:
//
//   skip to B unless batch == 1
//   the calls for batch == 1
//   skip to the end
//   B: the calls for any sizes
//
// What is chosen and how large each buffer is are numbers that a run computes once (PlanSizes). Buffers and
// workspaces of calls that aren't made have no bytes, so a run takes no more memory than without. Constants
// with equal bytes are stored once.
class PlanMerger {
 public:
  explicit PlanMerger(CompiledModel open);

  // A model for some of the sizes, whose plan is of indices in the arena, as that of open sizes. `values`: of
  // the open model's symbols, in their order. Bytes of constants that no other has are counted.
  int64_t add(CompiledModel chosen, const std::vector<std::optional<int64_t>>& values);
  int64_t weight_bytes() const { return weight_bytes_; }  // of all so far
  CompiledModel finish();

 private:
  struct Starts {  // where what a plan counts from 0 begins in the merged one
    int64_t number = 0, buffer = 0, pointer = 0;
    std::vector<int> kernels;            // of its own
    std::vector<int64_t> symbols;        // of its own
    std::map<int64_t, int64_t> weights;  // by offset in its own
  };
  int add_number(const Expr& number);
  std::vector<int64_t> symbols_of(const CompiledModel& m) const;
  std::vector<Expr> numbers_of(const CompiledModel& m, const std::vector<int64_t>& symbols) const;
  Expr condition(const CompiledModel& m, const std::vector<Expr>& numbers,
                 const std::vector<std::optional<int64_t>>& values) const;
  void add_buffers(PlanSizes& into, const PlanSizes& from, const std::vector<Expr>& numbers,
                   const Expr& chosen);
  void choose_outputs(std::vector<int64_t>& outputs, const std::vector<int64_t>& chosen,
                      const std::vector<Expr>& numbers, const Expr& is_chosen);
  void require_of_others();
  int kernel_for(CompiledFunction f, PrimFunc func, double flops);
  int64_t place_piece(const Tensor& piece);
  std::map<int64_t, int64_t> place_weights(const Plan& plan);
  void add_calls(const std::vector<PlanCall>& calls, const Starts& from);

  CompiledModel model_;
  Plan plan_;                  // of model_
  std::vector<Expr> numbers_;  // all that a run computes, of what it loads from `sizes_`
  std::unordered_map<Expr, int, HashExpr, SameExpr> by_number_;  // those that were added one by one
  Buffer sizes_;                                                 // the symbols' values
  Expr any_ = make::bool_imm(false);                             // that the sizes are chosen ones
  std::map<int64_t, int64_t> open_weights_;
  std::unordered_multimap<uint64_t, int> by_hash_;  // kernels
  std::vector<PlanCall> calls_;
  std::vector<size_t> ends_;  // of calls_: those that skip to the end
  PlanSizes buffers_;
  std::vector<PlanSizes::Requirement> of_chosen_;  // of sizes that are found
  int64_t pointers_ = 0;
  std::vector<std::pair<int64_t, Tensor>> pieces_;  // of the weights, by offset
  std::unordered_multimap<size_t, size_t> pieces_by_hash_;
  int64_t weight_bytes_ = 0;
};

}  // namespace nestor
