// Vectorized reduction loops: `vectorized k { X[i] = X[i] op e(k) }`.
#pragma once

#include "src/passes/widen.h"

namespace nestor::passes {

struct LaneReduction {
  ReduceOp op;
  Buffer buffer;
  Expr index, value;
  Expr guard;  // of the lanes; null: none
  Stmt init;   // what runs in the first iteration, before the rest; null: none

  Expr combine(Expr a, Expr b) const { return make::binary(binary_of(op), std::move(a), std::move(b)); }
};

// What the loop does, if it is of that form.
std::optional<LaneReduction> find_lane_reduction(const For& loop);

// What `count` iterations of the loop over `k` give from `start` on, one in each lane; in the lanes left
// over, and where the guard holds not, what changes no result.
Expr values_in_lanes(const LaneReduction& r, const Var& k, const Expr& start, const Expr& count, int lanes,
                     Facts facts, const BufferSizes& sizes);

// The loop as partial results per lane, or nullopt where its body is not one reduction into an element that
// the loop doesn't move. A step of the schedule asked for it: the order of the operations changes.
std::optional<Stmt> reduce_lanes(const For& loop, int lanes, const Facts& facts, const BufferSizes& sizes);

}  // namespace nestor::passes
