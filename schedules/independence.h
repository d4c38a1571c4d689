// Whether unordered iterations touch the same elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/access.h"

namespace nestor::schedules {

class StepContext;

struct Conflict {
  std::string why;
  std::vector<Stmt> blocks;  // the two that clash
  Buffer buffer;
};

// The first conflict among the iterations of a loop: two of them touch one element and one writes it. None
// means proved.
std::optional<Conflict> find_conflict(const PrimFunc& f, const Stmt& loop);

// The same, only between an iteration's `first` parts and another's `second` ones.
std::optional<Conflict> find_conflict_between(const PrimFunc& f, const Stmt& loop,
                                              const std::vector<Stmt>& first,
                                              const std::vector<Stmt>& second);

// The first pair of accesses by which an iteration of `loop` of its parts `first` meets an earlier iteration
// of `second`, one of them writing. None means proved.
std::optional<Conflict> find_backward(const PrimFunc& f, const Stmt& loop, const std::vector<Stmt>& first,
                                      const std::vector<Stmt>& second);

// A block that leaves loops to stand behind them: the first write to what it reads that a later iteration of
// one of them makes. `to`: where it goes, which may still be under some of the loops.
std::optional<Conflict> find_overwriting(const PrimFunc& f, const Place& p, const std::vector<Place>& to);

// A block that leaves loops to stand before them, at `to`: the first access by which it meets an earlier
// iteration of a block behind it in one of them.
std::optional<Conflict> find_hurried(const PrimFunc& f, const Place& p, const Place& to);

// Requirement D: checks every parallel, vectorized and thread loop of `out`, the result of a step.
PrimFunc settle_concurrency(const StepContext& ctx, PrimFunc out);

}  // namespace nestor::schedules
