// A loop over a symbolic size, cut where its guards begin to fail.
#pragma once

#include <optional>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::passes {

struct OpenParts {
  int64_t first = 0;  // no condition that holds later fails from here on
  Expr full;          // and none up to here; null: up to the loop's end
  // Conditions `step * v + row < size`, `row` a loop's variable of `step` iterations; if there are none, or
  // of different sizes, the size is null.
  int64_t step = 0;
  Expr size;
  bool only_rows = true;  // there are no other conditions that fail: `full` = size / step
};

// `conditions` of the body are about v, which runs over [0, extent). Null where there is nothing to cut.
std::optional<OpenParts> open_parts(const Var& v, const Expr& extent, const std::vector<Expr>& conditions,
                                    const Stmt& body, const Facts& facts);

// The least of both, written as one of them where it is seen which is less.
Expr lesser(const Expr& a, const Expr& b, const Facts& facts);

}  // namespace nestor::passes
