// Turns a plan of the family `any` into steps. Blocks that stay alone come first, from the last to the first,
// each with the maps that follow its reduction. Then the others move to their readers, from the last to the
// first, so that a reader is at its final place when its producers move.
#pragma once

#include <optional>
#include <string>

#include "schedules/plans/any.h"

namespace nestor::plans {

using Names = std::vector<std::string>;

// Places of a block that stands where others can be computed.
struct Where {
  std::string outer, tile;  // loops: the innermost of its outer level and of its tiles
  // Its first loop over tiles, along which a producer can slide: by so many iterations of `along` a step.
  std::string slides, along;
  int64_t step = 1;
  const std::string& at(const std::string& place) const { return place.ends_with("tile") ? tile : outer; }
};

// A loop over tiles and the iterators that it moves.
struct TileLoop {
  std::string name;
  std::vector<Var> moves;
};

// A block that stands alone while it is emitted. Its reduction may be cut into sums apart: then `block` adds
// up what `apart` sums.
struct Standing {
  std::string block, apart;
  std::string writer;       // copies its results to where they belong; empty: none does yet
  library::BlockInfo info;  // of `block`
  BlockPlan plan;           // loops by their present names
  std::string longest;
  int64_t lanes = 1;
  std::map<std::string, int64_t> at_once;  // of `apart`, by reduction loop
  std::vector<TileLoop> outer, tile;       // the outer ones with the loop over steps that stay in a cache
  std::string steps_loop;                  // that one; empty: none
  Names steps, unrolled, registers;
  std::string vector;
  bool along_sum = false;
};

class AnyEmitter {
 public:
  AnyEmitter(const PrimFunc& f, const std::vector<PlanBlock>& blocks, const std::vector<BlockPlan>& plans)
      : s_(f), blocks_(blocks), plans_(plans) {}
  Trace run();

 private:
  const std::string& name(size_t i) const { return blocks_[i].info.name; }
  int follower(size_t i) const;

  void stay(size_t i);
  void stream(size_t i);
  void stand(size_t i);
  std::optional<Standing> cut_rest(size_t i, Standing& n);
  void make_nest(size_t i, Standing n);
  Names cut(const Standing& n, const library::Iter& iter, const Names& suffixes, std::vector<int64_t> sizes);
  void cut_loops(Standing& n);
  void order_loops(Standing& n);
  std::string share(Standing& n);
  void pack(Standing& n, const std::string& buffer, bool constant);

  // Sums (any_sums.cpp).
  void fuse_dense(Standing& n, const Names& dense);
  void sum_in_parts(Standing& n);
  void sum_apart(Standing& n);
  void compute_apart(const Standing& n, const std::string& at);
  bool follow(size_t i, const Standing& n, Names* writers);
  void write_out(const std::string& writer, const std::string& at, const Standing& n);

  // Blocks that go to others (any_moves.cpp).
  void move(size_t i);
  void slide(size_t i, const std::string& reader, const Where& w);
  void spread(const std::string& block, const std::string& at, int64_t lanes);

  std::string loop_of(const std::string& block, const std::string& l) const { return block + "." + l; }
  Names inside(const std::string& block, const std::string& at) const;
  int64_t extent(const std::string& block, const std::string& l) const;
  bool is_dense(const library::BlockInfo& b, const std::string& block, const std::string& l) const;
  // The iterators that the block's loop moves.
  std::vector<IterVar> moved_by(const std::string& block, const std::string& l) const;
  bool moves(const std::string& block, const std::string& l, const Expr& e) const;

  Schedule s_;
  const std::vector<PlanBlock>& blocks_;
  const std::vector<BlockPlan>& plans_;
  std::map<std::string, Where> where_;
};

[[noreturn]] void refuse(const std::string& why);

}  // namespace nestor::plans
