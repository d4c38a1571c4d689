// Products whose rows are a size that a run decides: batch of a layer, or batch*seq. Tiles of several rows
// share what they load of the weights, and one row wants more columns at a time. So their kernel has two
// bodies, over one layout of the weights: one for the fewest rows that there can be, as where sizes are
// known, and one for any rows.
#pragma once

#include <optional>
#include <unordered_map>

#include "nestor/driver.h"

namespace nestor {

struct OpenRows {
  PrimFunc func;  // over the one size `rows`
  Var rows;
  Expr value;          // what that is, over the dimensions of the function that it was found in
  int64_t fewest = 1;  // but for none
  int64_t typical = 1;
};
// Nothing where f isn't a product of rows and constant weights, or where sizes are open in other places too.
std::optional<OpenRows> open_rows(const PrimFunc& f, const std::unordered_map<Var, int64_t>& typical);

// The function of the fewest rows, whose constants lie as in `any`, the scheduled function of any rows;
// nothing where it wants them otherwise.
std::optional<PrimFunc> of_fewest(const OpenRows& rows, const PrimFunc& any, const Target& target);

// The kernel for f: the body of `fewest`, if there is one, for so many rows, else that of `any`. Both are
// lowered.
PrimFunc over_rows(const PrimFunc& f, const OpenRows& rows, const PrimFunc& any, const PrimFunc* fewest);

}  // namespace nestor
