// Conditions about the rows of a tile: `step * tile + row < size`, where `row` is a loop of `step`
// iterations.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::passes {

// A condition as base + stride * v < 0.
struct Below {
  Expr base;
  int64_t stride;
};
std::optional<Below> as_below(const Expr& condition, const Var& v);

// What the body binds, and of its loops how far they run.
struct Inside {
  Facts facts;
  std::unordered_set<Var> bound;
  std::unordered_map<Var, int64_t> loops;

  Inside(const Stmt& body, const Facts& around);
  bool varies(const Expr& e) const;
  // The highest that what is bound inside makes of a sum; null where that isn't known.
  Expr highest(const Expr& e) const;
};

// base + step * v < 0 as `row` + step * v < size; null where it isn't that.
struct Row {
  Var row;
  Expr size;
};
std::optional<Row> row_of(const Below& b, const Inside& inside);

}  // namespace nestor::passes
