// Products whose rows are a size that a run decides: batch of a layer, or batch*seq. Tiles of several rows
// share what they load of the weights, and one row wants more columns at a time. So their kernel has two
// bodies, over one layout of the weights: one for the fewest rows that there can be, as where sizes are known,
// and one for any rows.
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

PrimFunc of_fewest(const OpenRows& rows);
// f with constants that lie as in `other`; nothing where it wouldn't have the same of their dimensions in
// vectors.
std::optional<PrimFunc> with_layouts_of(const PrimFunc& other, PrimFunc f, const Target& target);
bool same_layouts(const PrimFunc& a, const PrimFunc& b);

// The kernel for f: the body of `fewest`, if there is one, for so many rows, else that of `any`. Both are
// lowered.
PrimFunc over_rows(const PrimFunc& f, const OpenRows& rows, const PrimFunc& any, const PrimFunc* fewest);

}  // namespace nestor
