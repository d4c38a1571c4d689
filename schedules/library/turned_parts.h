// Attention whose scores can be turned around, block by block.
#pragma once

#include <optional>
#include <string>

#include "schedules/library/product_chain.h"

namespace nestor::library {

// The softmax between the products, and the operands; `maker` writes the scores, empty where the first
// product does.
struct TurnedParts {
  std::string turned_keys, maker, largest, exponentials, sum;
  Buffer queries;
  std::string moved_queries, moved_values;  // maps that copy them; empty where they are read where they lie
};

// None where what is between the products isn't a fold of rows, a map and another fold, softmax, after a map
// of scores at most, of which nothing else goes with both a query and a key; or where operands lie otherwise.
std::optional<TurnedParts> turned_parts(const PrimFunc& f, const ProductChain& c);

}  // namespace nestor::library
