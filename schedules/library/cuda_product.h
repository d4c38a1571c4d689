// A block that is a product of two operands, its loops told apart.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "nestor/schedule.h"

namespace nestor::library {

struct Product {
  // An operand's dimensions, by what indexes them.
  struct Operand {
    Buffer buffer;
    std::vector<Var> dims;  // null: a constant
    bool uses(const Var& v) const { return std::find(dims.begin(), dims.end(), v) != dims.end(); }
    // The iterator along which neighbours lie.
    Var contiguous() const {
      for (size_t d = dims.size(); d-- > 0;)
        if (dims[d]) return dims[d];
      return nullptr;
    }
  };

  struct Iter {
    Var var;  // null: none
    int64_t extent = 0;
    std::string loop;
  };

  Operand out, a, b;  // out's neighbours lie along j, where that is possible
  Iter i, j, k;
  std::vector<Iter> batch;
};

// The product that the block computes, if it is one, with indices that are plain iterators, or steps of a
// part of the sum.
std::optional<Product> product_of(const Block& block);

bool is_plain(const Expr& e, const Var& v);  // the iterator alone
std::string loop_of(const IterVar& i);       // that it is bound to; "" for anything but a loop alone

// The loop of `reader` that goes along with iterator v of the product: both index the product's output in one
// dimension.
std::string loop_along(const PrimFunc& f, const std::string& product, const Var& v, const std::string& reader,
                       const Buffer& out);

// Divides a block's sums, over loop k, into parts: a new block computes each, which may be by different
// blocks of threads, and the old block adds them up, in their order. The new block's name. `reader`: who
// reads the sums; made where it is empty.
std::string split_sum(Schedule& s, const std::string& block, const std::string& k, int64_t parts,
                      std::string& reader);
// A kernel with a thread for each result of `reader`, which first adds up its parts.
void add_parts(Schedule& s, const std::string& sum, const std::string& reader);

}  // namespace nestor::library
