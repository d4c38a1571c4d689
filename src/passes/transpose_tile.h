// Accesses that are columns of one tile in memory, and the vectors of that tile in registers.
#pragma once

#include <optional>

#include "nestor/walk.h"
#include "src/passes/transpose_network.h"

namespace nestor::passes {

// An access of `lanes` elements at base + offset + stride * lane, of which the first `count` are wanted.
struct Column {
  Buffer buffer;
  Expr base;
  int64_t offset = 0, stride = 0;
  Expr open_stride;  // one that depends on sizes; then `stride` is 0
  int lanes = 0, count = 0;

  // Whether they lie on the same grid.
  bool aligned(const Column& o) const {
    const bool same = open_stride && o.open_stride ? same_expr(open_stride, o.open_stride)
                                                   : !open_stride && !o.open_stride && stride == o.stride;
    return buffer == o.buffer && same && same_expr(base, o.base);
  }
  bool joins(const Column& o) const { return aligned(o) && lanes == o.lanes && count == o.count; }
};

// The access as a column, if its lanes lie evenly spaced and apart and its mask leaves the first ones.
std::optional<Column> column_of(const Buffer& buffer, const Expr& index, const Expr& mask);

struct Item {
  Column column;
  Expr load;         // of a load: the expression
  size_t store = 0;  // of a store: its place in the run
};

// Columns that lie beside each other, in order of their offsets.
using Group = std::vector<Item>;

// Groups of items whose offsets are consecutive, none larger than its columns' lanes or than what fits
// between two rows; only those that are worth turning. Loads of few columns without gaps may have more
// columns than that, which begin in the rows after the first.
std::vector<Group> groups_of(std::vector<Item> items, bool loads);

struct LoadReplacer : Rewriter {
  std::unordered_map<Expr, Expr, HashExpr, SameExpr> values;
  Expr expr(const Expr& e) override {
    if (e.as<Load>())
      if (const auto it = values.find(e); it != values.end()) return it->second;
    return children(e);
  }
};

// The vectors of one group. Statements go to the end of `out`; those that use them belong into an Alloc of
// `decl()`.
class Tile {
 public:
  Tile(const Group& group, std::vector<Stmt>& out);

  // Loads the rows and turns them; what the group's loads give is then what `replacer` puts in their place.
  void load(LoadReplacer& replacer);
  // The value of a store of the group waits in a register; `store` turns them and writes the rows.
  void take(size_t member, const Expr& value) { set(static_cast<int>(member), value); }
  void store(bool streaming);

  BufferDecl decl() const { return {registers_, {next_}, Scope::local, std::nullopt}; }

 private:
  void set(int vector, Expr value);
  Expr get(int vector) const { return make::load(registers_, {place_.at(static_cast<size_t>(vector))}); }
  void run(const TransposeNetwork& network);
  Expr row_index(int row) const {
    return make::ramp(start() + (c_.open_stride ? row * c_.open_stride : row * c_.stride), 1, width_);
  }
  Expr row_mask() const;
  Expr load_row(int row) const;
  Expr start() const { return c_.base + c_.offset; }
  Expr dense(int part) const { return make::ramp(start() + part * c_.lanes, 1, c_.lanes); }
  // Of a tile without gaps: elements that its columns take, vectors in which they lie.
  int64_t elements() const {
    return (c_.count - 1) * std::abs(c_.stride) + static_cast<int64_t>(group_.size());
  }
  int parts() const { return static_cast<int>((elements() + c_.lanes - 1) / c_.lanes); }
  Expr dense_mask(int part) const;
  void load_interleaved(LoadReplacer& replacer);
  void store_interleaved(bool streaming);

  const Group& group_;
  const Column& c_;
  std::vector<Stmt>& out_;
  Type vector_;
  bool interleaved_ = false;
  int width_ = 0, next_ = 0;  // vectors, variables
  Buffer registers_;
  std::vector<int> place_;  // the variable that is vector i now
};

}  // namespace nestor::passes
